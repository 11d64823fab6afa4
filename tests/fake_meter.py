"""A meter of no GPU."""

import sys
import time


class Meter:
    """Of something that takes 100 W, told in steps of 1 J, at 1200 and 1000 MHz in turns."""

    def __init__(self, fails_at: int = sys.maxsize) -> None:
        self.start, self.readings, self.fails_at = time.perf_counter(), 0, fails_at

    def joules(self) -> float:
        return 100 * (time.perf_counter() - self.start) // 1

    def sm_mhz(self) -> float:
        if self.readings == self.fails_at:
            raise OSError("the GPU is lost")
        self.readings += 1
        return 1000.0 if self.readings % 2 == 0 else 1200.0
