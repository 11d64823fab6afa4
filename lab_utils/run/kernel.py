"""The kernel that runs notebooks: this interpreter's own, and a client that misses no reply."""

import os
import time
from queue import Empty
from typing import Any

from jupyter_client import AsyncKernelClient, AsyncKernelManager
from jupyter_client.channels import AsyncZMQSocketChannel
from jupyter_client.kernelspec import KernelSpecManager
from traitlets import Type, default

from lab_utils.plots.renderer import WANTS_PNG

SLICE_S = 1.0


class _SlicedChannel(AsyncZMQSocketChannel):
    """Waits for messages in slices, and looks again after each.

    While a cell that uses `interact` runs, nbclient sends on the same ZMQ socket that another of
    its tasks polls, which can swallow the socket's only wake-up: an endless poll then never sees
    the reply that has long arrived.
    """

    async def get_msg(self, timeout: float | None = None) -> dict:
        """The next message; raises queue.Empty after `timeout` seconds (None: never)."""
        end = float("inf") if timeout is None else time.monotonic() + timeout
        while not await self.socket.poll(1000 * max(0.0, min(SLICE_S, end - time.monotonic()))):
            if time.monotonic() >= end:
                raise Empty
        return await self._recv()


class _Client(AsyncKernelClient):
    shell_channel_class = Type(_SlicedChannel)


class ThisInterpreter(AsyncKernelManager):
    """Starts `python3` kernels with this interpreter, whatever kernels the user has installed."""

    client_class = f"{__name__}.{_Client.__name__}"
    client_factory = Type(_Client)

    async def start_kernel(self, **options: Any) -> None:
        """Start it; its figures carry PNGs, since no JupyterLab is there to draw them."""
        environment = {**options.pop("env", os.environ), WANTS_PNG: "1"}
        await super().start_kernel(env=environment, **options)

    @default("kernel_spec_manager")
    def _no_installed_kernels(self) -> KernelSpecManager:
        return KernelSpecManager(kernel_dirs=[], parent=self)

    @default("transport_encryption")
    def _encrypt_if_possible(self) -> str:
        return "auto"
