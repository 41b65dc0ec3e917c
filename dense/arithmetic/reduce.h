// Element-wise combination of two ranges: the arithmetic of a dense collective.
#pragma once

#include <cstddef>

#include "transport/data_type.h"
#include "transport/reduce_op.h"

namespace ringwood {

// out[i] = a[i] op b[i] for `count` elements; `out` may be `a` or `b`, partial overlap is not
// allowed, no alignment is needed. bf16 and fp16 are widened to fp32, combined, and rounded to
// nearest even. Integers wrap. A NaN in a or b gives a NaN.
void Reduce(DataType type, ReduceOp op, const void* a, const void* b, void* out, size_t count);

// The same, one element at a time: what Reduce is tested against.
void ReferenceReduce(DataType type, ReduceOp op, const void* a, const void* b, void* out,
                     size_t count);

}  // namespace ringwood
