"""Pure arithmetic on formats and devices: what the papers' equations say, without a kernel."""
