// What the text of a flag or of its variable says: numbers and switches. Pure.
#pragma once

#include <string>

namespace ringwood {

// What is wrong with the text of a number that has to be finite and within both ends; "": nothing.
std::string NumberProblem(const std::string& text, double least, double most, bool above);

// Writes a whole number that T holds as the parser library reads it: decimal, also where it begins
// with zeros, which that takes for octal. What is wrong with the text; "": nothing.
template <typename T>
std::string ReadWhole(std::string* text);

}  // namespace ringwood
