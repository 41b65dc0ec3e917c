// Escapes text for JSON, SVG and HTML.
#pragma once

#include <string>

namespace ringwood {

// A JSON string with its quotes; bytes that are not UTF-8 are replaced.
std::string JsonString(const std::string& text);

// "<", "&" and quotes as entities.
std::string EscapeXml(const std::string& text);

}  // namespace ringwood
