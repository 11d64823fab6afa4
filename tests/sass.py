"""Machine code as `cuobjdump -sass` prints it, and what a compiler may do wrong in it."""

import importlib.util
import re
import shutil
import subprocess
from pathlib import Path
from typing import NamedTuple

WAIT = "WARPGROUP.DEPBAR.LE gsb0, 0x0"  # for all products
PRODUCT = re.compile(
    r"HGMMA\.SP\S* R\d+, R\d+, g?desc\S+, R\d+, (?:!?U?P\w+, )?R(?P<metadata>\d+), 0x"
)
# A flag of global memory (common/ptx.cuh): st.release and ld.acquire of 64 bits, and what makes
# them so.
FLAG_STORE, FLAG_LOAD = "STG.E.64.STRONG.GPU", "LDG.E.64.STRONG.GPU"
RELEASE, ACQUIRE = "MEMBAR.ALL.GPU", "CCTL.IVALL"
NEAR = 4  # instructions, between which a compiler puts error barriers
# Instructions whose first operand is a register, but not one that they write.
READS_FIRST = ("ST", "RED", "SYNCS", "UBLKCP", "UBLKPF", "BAR", "CCTL", "EXIT", "RET", "HGMMA")


class Instruction(NamedTuple):
    address: int
    text: str

    @property
    def target(self) -> int | None:
        """Where it may jump."""
        found = re.search(r"\bBRA\b.*?(0x[0-9a-f]+)$", self.text)
        return int(found[1], 16) if found else None

    @property
    def goes_on(self) -> bool:
        """Whether the next instruction may follow."""
        return not re.match(r"BRA\s+0x|BRA\.U\s+0x|EXIT|RET", self.text)

    @property
    def written(self) -> range:
        """Vector registers that it writes."""
        text = re.sub(r"^@!?U?P\w+\s+", "", self.text)
        found = re.match(r"(\S+)\s+(?:!?U?PT?\w*, )?R(\d+)\b", text)
        if not found or found[1].startswith(READS_FIRST):
            return range(0)
        name, first = found[1], int(found[2])
        four = (".128", "MMA", ".M88.4", ".MT88.4")
        two = (".64", "WIDE", "CS2R", ".M88.2", ".MT88.2")
        size = 4 if any(part in name for part in four) else 2 if any(p in name for p in two) else 1
        return range(first, first + size)


def cuobjdump() -> str | None:
    """CUDA's, or the one that Triton brings along."""
    if found := shutil.which("cuobjdump"):
        return found
    triton = importlib.util.find_spec("triton")
    places = triton.submodule_search_locations if triton else []
    tools = (Path(place) / "backends/nvidia/bin/cuobjdump" for place in places)
    return next((str(tool) for tool in tools if tool.exists()), None)


def disassemble(binary: Path, architecture: str, tool: str) -> str:
    command = [tool, "-sass", "-arch", architecture, binary]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout


def kernels_of(sass: str) -> dict[str, list[Instruction]]:
    """The instructions of each kernel."""
    found: dict[str, list[Instruction]] = {}
    for part in re.split(r"^\s*Function : ", sass, flags=re.M)[1:]:
        name, code = part.split(None, 1)
        lines = re.findall(r"^\s*/\*([0-9a-f]{4,})\*/\s+(.*?)\s*;", code, flags=re.M)
        found[name] = [Instruction(int(address, 16), text) for address, text in lines]
    return found


def metadata_not_kept(code: list[Instruction]) -> list[tuple[Instruction, Instruction]]:
    """Sparse products, and instructions that write their metadata register too early.

    The tensor core may read it until the wait. A compiler keeps the registers of A so long, but not
    this one.
    """
    at = {one.address: i for i, one in enumerate(code)}
    found = []
    for i, product in enumerate(code):
        if not (read := PRODUCT.search(product.text)):
            continue
        metadata, ahead, seen = int(read["metadata"]), [i + 1], set()
        while ahead:
            j = ahead.pop()
            if j in seen or j >= len(code) or WAIT in code[j].text:
                continue
            seen.add(j)
            if metadata in code[j].written:
                found.append((product, code[j]))
                continue
            ahead += [at[code[j].target]] if code[j].target in at else []
            ahead += [j + 1] if code[j].goes_on else []
    return found


def flags_out_of_order(code: list[Instruction]) -> list[Instruction]:
    """Stores and loads of flags that nothing makes releases and acquires."""
    found = []
    for i, one in enumerate(code):
        before, behind = code[max(0, i - NEAR) : i], code[i + 1 : i + 1 + NEAR]
        if FLAG_STORE in one.text and not any(RELEASE in other.text for other in before):
            found.append(one)
        if FLAG_LOAD in one.text and not any(ACQUIRE in other.text for other in behind):
            found.append(one)
    return found
