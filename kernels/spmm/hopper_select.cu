// What zero-row 2:4 needs of mma.sp beyond what PTX promises: all 16 codes of metadata, not only the six
// with ascending indices, select B[i] and B[j]; and a row of B that nobody selects has no effect, not
// even if it is NaN. A warp makes up operands of small whole numbers, whose sums are exact, and counts
// the elements of C that are not what selection gives.
#include "hopper_probe.cuh"

namespace lscd {
namespace {

[[maybe_unused]] constexpr int PROBES = 64, TRIALS = 64;  // warps, each with so many products

// Wrong elements of C in this lane.
template <class T, int STEP>
__device__ int wrong_elements(const Operands& x) {
    int lane = threadIdx.x, g = lane / 4, t = lane % 4;
    uint32_t a[4], b[4], metadata = 0xeeeeeeee;  // of lanes of the other step: whatever
    for (int r = 0; r < 4; r++) {
        int row = g + r % 2 * 8, slot = 2 * t + r / 2 * 8, k = 2 * t + r * 8;
        a[r] = two<T>(float(x.a(row, slot)), float(x.a(row, slot + 1)));
        b[r] = two<T>(x.b_or_nan(k, g), x.b_or_nan(k + 1, g));
    }
    if (t / 2 == STEP) metadata = 0;
    for (int i = 0; i < 16 && t / 2 == STEP; i++)
        metadata |= uint32_t(x.index(g + i / 8 * 8, t % 2 * 8 + i % 8)) << 2 * i;
    float d[4] = {};
    mma_sp_m16n8k32<T, STEP>(d, a, b, metadata);
    int wrong = 0;
    for (int r = 0; r < 4; r++) wrong += !(d[r] == float(x.c(g + r / 2 * 8, 2 * t + r % 2)));
    return wrong;
}

// wrong[probe] = wrong elements in all of its products.
template <class T, int STEP>
__global__ void mma_sp_selects(int32_t* wrong) {
#if LSCD_SM90
    int count = 0;
    for (int trial = 0; trial < TRIALS; trial++)
        count += wrong_elements<T, STEP>(Operands{blockIdx.x * TRIALS + trial});
    for (int other = 16; other; other /= 2) count += __shfl_xor_sync(~0u, count, other);
    if (threadIdx.x == 0) st_global(wrong + blockIdx.x, count);
#else
    __trap();
#endif
}

cudaError_t launch(void (*kernel)(int32_t*), int32_t* wrong, cudaStream_t stream) {
    cudaLaunchConfig_t config = {dim3(PROBES), dim3(32), 0, stream, nullptr, 0};
    return cudaLaunchKernelEx(&config, kernel, wrong);
}

}  // namespace

// wrong [4][64]: of fp16, steps 0 and 1, and of bf16.
cudaError_t launch_select(int32_t* wrong, cudaStream_t stream) {
    void (*kernels[])(int32_t*) = {mma_sp_selects<__half, 0>, mma_sp_selects<__half, 1>,
                                   mma_sp_selects<__nv_bfloat16, 0>, mma_sp_selects<__nv_bfloat16, 1>};
    for (auto kernel : kernels) {
        if (cudaError_t error = launch(kernel, wrong, stream)) return error;
        wrong += PROBES;
    }
    return cudaSuccess;
}

}  // namespace lscd
