"""Pure arithmetic on formats, devices and measurements: what they come to, without a kernel.

`compression` has the bytes of every format, by the papers' equations; those of our own formats
(`our_formats`) come from `zero_row_24`, `zero_row_24_strips`, `lane_24_strips`, `bitmap_strips` and
`coded_strips`, the last two by way of `bank_strips`. From bytes follow times (`roofline`) and what
fits a GPU (`memory`, with the `kernel_scratch` of a product); `gpu_products` says which formats it
multiplies.

What lanes do is worked out by hand in `bank_conflicts` (Tiled-CSL), `bitmap_decoding` (TCA-BME) and
`zero_row_lanes` (zero-row 2:4). A `kernel_trace` is what the emulator counted of it: `pipeline`
reads the steps of a block off one, `schedule` gives them times, `hopper_budget` holds counts
against what an SM can do, `agreement` against the profiler's. `anatomy` is the profiler's view:
what stages cost, and which units are busy.
"""
