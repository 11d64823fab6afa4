// Any CPU: plain C++, vectorised as far as the compiler's baseline goes.
#include "spmm.h"

namespace lscd {
namespace {
struct Portable {
    static constexpr i64 MAX_NB = 2;  // 2 columns x 4 SSE registers of sums, of 16
    using BitmapStep = PortableBitmapStep;
    using DenseStep = PortableDenseStep;
    template <i64 NB, Dtype D>
    using Multiplier = Fp32Multiplier<NB, 2, D, PortableWiden<D>>;
};
}  // namespace

void spmm_portable(const Problem& p) { spmm_any_dtype<Portable>(p); }
}  // namespace lscd
