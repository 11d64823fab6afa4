// What common/ptx.cuh declares, for the emulator: the same names, with the PTX manual's semantics.
#pragma once
#include "bits.h"
#include "cp_async.h"
#include "flags.h"
#include "ldmatrix.h"
#include "mbarrier.h"
#include "mma.h"
