// Options as the C interface has them: in both a field that is 0 or NULL has the default.
#pragma once

#include "client/options/option_table.h"
#include "include/ringwood.h"

namespace ringwood {

// Invalid: a switch or `resume` that is none of its choices, which the error names.
StatusOr<SessionOptions> FromC(const ringwood_options& options);

// Its strings are those of `options`, which outlives them; its size is 0.
ringwood_options ToC(const SessionOptions& options);

// Its size is 0.
ringwood_option Describe(const Option& option);

}  // namespace ringwood
