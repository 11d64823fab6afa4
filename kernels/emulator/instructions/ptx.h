// What common/ptx.cuh declares, for the emulator: the same names, with the PTX manual's semantics.
#pragma once
#include "bits.h"
#include "bulk_copy.h"
#include "cp_async.h"
#include "flags.h"
#include "ldmatrix.h"
#include "mma.h"
