"""What sparse products are measured against, each behind the same three calls.

`BASELINES` maps the name that rows carry to a `Baseline`: dense products first.
"""

from lab_utils.baselines.base import Baseline, Operand
from lab_utils.baselines.csr_simt import CsrSimt
from lab_utils.baselines.cublas import CublasLinear, CublasMm
from lab_utils.baselines.cublaslt import Cublaslt
from lab_utils.baselines.cusparse import Cusparse
from lab_utils.baselines.gemv import Gemv
from lab_utils.baselines.sparta import SparTA
from lab_utils.baselines.two_four import TwoFour

BASELINES: dict[str, Baseline] = {
    baseline.name: baseline
    for baseline in (
        CublasMm(),
        CublasLinear(),
        Cublaslt(),
        Gemv(),
        Cusparse(),
        CsrSimt(),
        TwoFour(),
        SparTA(),
    )
}

__all__ = ["BASELINES", "Baseline", "Operand"]
