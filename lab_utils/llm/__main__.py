"""`python -m lab_utils.llm plan|generate|prune|measure|steps`: thin wrappers over `lab_utils.llm`.

    torchrun --nproc-per-node 4 -m lab_utils.llm measure --model OPT-175B

runs `generate` and `measure` on several GPUs. `lab_utils.console` says how commands fail.
"""

from lab_utils.llm.cli import main

if __name__ == "__main__":
    main(prog_name="python -m lab_utils.llm")
