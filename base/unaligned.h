// Elements of an array that need not be aligned: a payload lies where the network library put it.
#pragma once

#include <cstddef>
#include <cstring>

namespace ringwood {

template <typename T>
T ElementAt(const void* array, size_t i) {
  T value;
  std::memcpy(&value, static_cast<const std::byte*>(array) + i * sizeof(T), sizeof(T));
  return value;
}

template <typename T>
void SetElement(void* array, size_t i, T value) {
  std::memcpy(static_cast<std::byte*>(array) + i * sizeof(T), &value, sizeof(T));
}

}  // namespace ringwood
