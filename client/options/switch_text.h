// Whether a text says on or off, in variables as in the flags of the program.
#pragma once

#include <optional>
#include <string>

namespace ringwood {

// "on", "1", "yes", … and their contraries; nothing where the text is neither.
std::optional<bool> ReadSwitch(const std::string& text);

}  // namespace ringwood
