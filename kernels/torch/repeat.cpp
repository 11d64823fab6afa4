// A product again (backends/repeated.py): are its operands as those of one before? Then to its launch.
//
// Called by Python between other work of a model, each line that Python runs takes the host longer than
// the whole of this, and all of them together longer than a small product takes a GPU.
#include <ATen/PythonTorchFunctionTLS.h>
#include <ATen/core/Tensor.h>
#include <ATen/ops/empty.h>
#include <c10/core/DeviceGuard.h>
#include <c10/core/GradMode.h>
#include <c10/core/impl/LocalDispatchKeySet.h>
#include <torch/csrc/profiler/orchestration/observer.h>

#include <cstring>
#include <vector>

#define LSCD_EXPORT extern "C" __attribute__((visibility("default")))

namespace lscd {

using at::TensorImpl;
using Impl = c10::intrusive_ptr<TensorImpl, at::UndefinedTensorImpl>;
using WeakImpl = c10::weak_intrusive_ptr<TensorImpl, at::UndefinedTensorImpl>;

constexpr int NOT_ALIKE = -1;
constexpr int ALIGN = 16;         // bytes of a load
constexpr int MOST_BYTES = 1024;  // of a problem

// A launch as Python describes it: the bytes of a problem, and where in them each call's own fields are.
struct Launch {
    void* launcher;  // of a product: (number, problem, stream), or without a number where that is < 0
    int32_t number;
    int32_t scratch_fields;
    const char* problem;
    int64_t problem_bytes, scratch_bytes;
    int64_t at_b, at_c, at_bias, at_relu;  // offsets; < 0: the kernel has no such field
    const int64_t* scratch;                // pairs: the offset of a field, and of its memory
};

// An array of the encoding, as it was validated. It may be gone; then nobody asks for it.
struct Array {
    WeakImpl tensor;
    const void* address;
    uint32_t version;

    explicit Array(TensorImpl* it)
        : tensor(Impl::reclaim_copy(it)), address(it->data()),
          version(it->version_counter().current_version()) {}

    bool is_as_it_was() const {
        TensorImpl* it = tensor._unsafe_get_target();
        if (it->requires_grad() && c10::GradMode::is_enabled()) return false;
        return it->data() == address && it->version_counter().current_version() == version;
    }
};

// Whether an op would be seen by anybody but gradients: what is_watched of backends/watched.py asks.
bool is_watched() {
    auto keys = c10::impl::tls_local_dispatch_key_set().included_;
    bool usual = keys.add(c10::DispatchKey::ADInplaceOrView) == c10::default_included_set;
    return !usual || at::impl::PythonTorchFunctionTLS::stack_len() > 0 ||
           torch::profiler::impl::profilerEnabled();
}

struct Repeat {
    std::vector<char> problem;
    std::vector<int64_t> scratch;
    std::vector<Array> arrays;
    Launch launch;
    std::vector<int64_t> sizes, strides;
    int64_t rows;
    caffe2::TypeMeta dtype;
    c10::Device device;
    uint64_t plain[2];  // keys of tensors whose memory is their value, made in inference mode or outside

    Repeat(const Launch& told, TensorImpl* x, int64_t rows, TensorImpl** of, int count,
           const uint64_t* plain)
        : problem(told.problem, told.problem + told.problem_bytes),
          scratch(told.scratch, told.scratch + 2 * told.scratch_fields), launch(told),
          sizes(x->sizes().vec()), strides(x->strides().vec()), rows(rows), dtype(x->dtype()),
          device(x->device()), plain{plain[0], plain[1]} {
        launch.problem = problem.data();  // of its own: what was told about is Python's
        launch.scratch = scratch.data();
        for (int i = 0; i < count; ++i) arrays.emplace_back(of[i]);
    }

    bool is_plain(const TensorImpl* one) const {
        uint64_t keys = one->key_set().raw_repr();
        bool wanted = one->requires_grad() && c10::GradMode::is_enabled();
        return (keys == plain[0] || keys == plain[1]) && !wanted && one->device() == device;
    }

    bool takes(const TensorImpl* x) const {
        return is_plain(x) && x->sizes() == sizes && x->strides() == strides && x->dtype() == dtype &&
               x->data() && reinterpret_cast<uintptr_t>(x->data()) % ALIGN == 0;
    }

    bool takes_bias(const TensorImpl* bias) const {
        return launch.at_bias >= 0 && is_plain(bias) && bias->dim() == 1 && bias->size(0) == rows &&
               (rows == 1 || bias->stride(0) == 1) && bias->dtype() == dtype && bias->data();
    }

    bool is_alike(const TensorImpl* x, const TensorImpl* bias) const {
        if (is_watched() || !takes(x) || (bias && !takes_bias(bias))) return false;
        for (const Array& array : arrays)
            if (!array.is_as_it_was()) return false;
        return true;
    }

    int run(const TensorImpl* x, TensorImpl* y, const TensorImpl* bias, int32_t relu, void* stream) const {
        c10::DeviceGuard on(device);
        alignas(16) char p[MOST_BYTES];
        std::memcpy(p, problem.data(), problem.size());
        auto set = [&](int64_t at, const auto& value) { std::memcpy(p + at, &value, sizeof value); };
        at::Tensor memory = at::empty({launch.scratch_bytes}, at::device(device).dtype(at::kByte));
        char* begin = static_cast<char*>(memory.mutable_data_ptr());
        for (size_t i = 0; i < scratch.size(); i += 2) set(scratch[i], begin + scratch[i + 1]);
        set(launch.at_b, x->data());
        set(launch.at_c, y->mutable_data());
        if (bias) set(launch.at_bias, bias->data());
        if (relu) set(launch.at_relu, relu);
        if (launch.number < 0) return reinterpret_cast<int (*)(void*, void*)>(launch.launcher)(p, stream);
        return reinterpret_cast<int (*)(int, void*, void*)>(launch.launcher)(launch.number, p, stream);
    }
};

}  // namespace lscd

using namespace lscd;

// One for activations like x, of the arrays `of` and for so many rows of A; 0 where it cannot be.
LSCD_EXPORT Repeat* lscd_repeat_new(const Launch* launch, TensorImpl* x, int64_t rows, TensorImpl** of,
                                    int32_t count, const uint64_t* plain) try {
    bool fits = launch->problem_bytes <= MOST_BYTES;
    return fits ? new Repeat(*launch, x, rows, of, count, plain) : nullptr;
} catch (...) {
    return nullptr;
}

LSCD_EXPORT void lscd_repeat_delete(Repeat* repeat) { delete repeat; }

// y = x * A^T, with what an epilogue adds: 0 or a cudaError_t. NOT_ALIKE where anything is not as it was,
// or an exception stands in the way: whoever asks then asks Python, which says what it is.
LSCD_EXPORT int32_t lscd_repeat(const Repeat* repeat, TensorImpl* x, TensorImpl* y, TensorImpl* bias,
                                int32_t relu, void* stream) try {
    if (relu && repeat->launch.at_relu < 0) return NOT_ALIKE;
    return repeat->is_alike(x, bias) ? repeat->run(x, y, bias, relu, stream) : NOT_ALIKE;
} catch (...) {
    return NOT_ALIKE;
}
