// All codes of metadata, as hopper_select.cu tries them of mma.sp, on tiles of B' as they lie. A warpgroup makes up
// operands, and each of its warps counts the elements of C that are not what selection gives.
#include "hopper_probe.cuh"
#include "hopper_wgmma.cuh"

namespace lscd {
namespace {

[[maybe_unused]] constexpr int PROBES = 8, TRIALS = 8;  // warpgroups, each with so many products
// Rows of B' in shared memory, of which the product's 32 come behind these; the others are NaN.
[[maybe_unused]] constexpr int PROBE_ROWS = 128, FIRST_ROW = 64;

template <class T, int COLS, int STEP>
struct Probe {
    using Tile = DenseTile<COLS, PROBE_ROWS>;

    Address memory;
    int lane = threadIdx.x % 32, g = lane / 4, t = lane % 4, first_row = threadIdx.x / 32 * 16;

    __device__ void store_b(const Operands& x) const {
        constexpr int PAIRS = Tile::WIDTH / 2;
        __syncthreads();
        for (int i = threadIdx.x; i < PROBE_ROWS * PAIRS; i += 128) {
            int k = i / PAIRS, n = i % PAIRS * 2, mine = k - FIRST_ROW;
            bool met = mine >= 0 && mine < 32 && n < COLS;
            float nan = __int_as_float(0x7fffffff);
            st_shared(memory + Tile::offset(k, n / 8) + n % 8 * 2,
                      met ? two<T>(x.b_or_nan(mine, n), x.b_or_nan(mine, n + 1)) : two<T>(nan, nan));
        }
        async_proxy_fence();
        __syncthreads();
    }

    // Twice the product, with 7 before or without.
    __device__ int wrong_elements(const Operands& x) const {
        store_b(x);
        uint32_t a[4], metadata = 0xeeeeeeee, adds = x.seed % 3 == 0;  // of lanes of the other step: whatever
        for (int r = 0; r < 4; r++) {
            int row = first_row + g + r % 2 * 8, slot = 2 * t + r / 2 * 8;
            a[r] = two<T>(float(x.a(row, slot)), float(x.a(row, slot + 1)));
        }
        if (t / 2 == STEP) metadata = 0;
        for (int i = 0; i < 16 && t / 2 == STEP; i++)
            metadata |= uint32_t(x.index(first_row + g + i / 8 * 8, t % 2 * 8 + i % 8)) << 2 * i;
        float d[COLS / 8][4];
        for (int j = 0; j < COLS / 8; j++)
            for (int r = 0; r < 4; r++) d[j][r] = 7;
        uint64_t b = Tile::descriptor(memory) + Tile::further(FIRST_ROW);
        wgmma_fence();
        wgmma_sp_m64k32<T, COLS, STEP>(d, a, b, metadata, adds);
        wgmma_sp_m64k32<T, COLS, STEP>(d, a, b, metadata, 1);
        wgmma_commit();
        wgmma_wait<0>();
        int wrong = 0;
#pragma unroll
        for (int j = 0; j < COLS / 8; j++)
#pragma unroll
            for (int r = 0; r < 4; r++) {
                int c = x.c(first_row + g + r / 2 * 8, 8 * j + 2 * t + r % 2);
                wrong += !(d[j][r] == float(2 * c + (adds ? 7 : 0)));
            }
        return wrong;
    }
};

// wrong[probe][warp] = wrong elements in all of its products.
template <class T, int COLS, int STEP>
__global__ void __launch_bounds__(128) wgmma_sp_selects(int32_t* wrong) {
#if LSCD_SM90
    extern __shared__ __align__(1024) unsigned char memory[];
    Probe<T, COLS, STEP> probe{shared_address(memory)};
    int count = 0;
#pragma unroll 1
    for (int trial = 0; trial < TRIALS; trial++)
        count += probe.wrong_elements(Operands{blockIdx.x * TRIALS + trial});
    for (int other = 16; other; other /= 2) count += __shfl_xor_sync(~0u, count, other);
    if (threadIdx.x % 32 == 0) st_global(wrong + blockIdx.x * 4 + threadIdx.x / 32, count);
#else
    __trap();
#endif
}

template <class T, int COLS, int STEP>
cudaError_t launch(int32_t*& wrong, cudaStream_t stream) {
    cudaLaunchConfig_t config = {dim3(PROBES), dim3(128), size_t(Probe<T, COLS, STEP>::Tile::BYTES), stream,
                                 nullptr, 0};
    cudaError_t error = cudaLaunchKernelEx(&config, wgmma_sp_selects<T, COLS, STEP>, wrong);
    wrong += PROBES * 4;
    return error;
}

template <int COLS>
cudaError_t launch_width(int32_t*& wrong, cudaStream_t stream) {
    cudaError_t error = launch<__half, COLS, 0>(wrong, stream);
    if (!error) error = launch<__half, COLS, 1>(wrong, stream);
    if (!error) error = launch<__nv_bfloat16, COLS, 0>(wrong, stream);
    if (!error) error = launch<__nv_bfloat16, COLS, 1>(wrong, stream);
    return error;
}

}  // namespace

// wrong [11][4][8][4]: of 24, 32, ... 64, 80, ... 128 and 160 columns; of fp16, steps 0 and 1, and of bf16.
cudaError_t launch_wgmma_select(int32_t* wrong, cudaStream_t stream) {
    cudaError_t (*widths[])(int32_t*&, cudaStream_t) = {
        launch_width<24>, launch_width<32>, launch_width<40>,  launch_width<48>,  launch_width<56>,  launch_width<64>,
        launch_width<80>, launch_width<96>, launch_width<112>, launch_width<128>, launch_width<160>};
    for (auto launch_one : widths)
        if (cudaError_t error = launch_one(wrong, stream)) return error;
    return cudaSuccess;
}

}  // namespace lscd
