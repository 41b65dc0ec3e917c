// A 64-byte aligned, zeroed block of floats or bytes: gradients, residuals, frames. One owner.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <span>
#include <utility>

#include "base/out_of_memory.h"

namespace ringwood {

template <typename T>
class Buffer {
 public:
  Buffer() = default;
  // Throws OutOfMemory if it cannot be allocated. Pages that nobody writes take no memory.
  explicit Buffer(size_t count) : count_(count) {
    if (count == 0) return;
    if (count > (PTRDIFF_MAX - kAlignment) / sizeof(T)) throw OutOfMemory(count, sizeof(T));
    block_.reset(std::calloc(1, count * sizeof(T) + kAlignment));
    if (block_ == nullptr) throw OutOfMemory(count, sizeof(T));
    const uintptr_t begin = reinterpret_cast<uintptr_t>(block_.get());
    data_ = reinterpret_cast<T*>((begin + kAlignment - 1) / kAlignment * kAlignment);
  }
  Buffer(Buffer&& other) noexcept { *this = std::move(other); }
  Buffer& operator=(Buffer&& other) noexcept {
    block_ = std::move(other.block_);
    data_ = std::exchange(other.data_, nullptr);
    count_ = std::exchange(other.count_, 0);
    return *this;
  }

  T* data() { return data_; }
  const T* data() const { return data_; }
  size_t size() const { return count_; }
  std::span<T> span() { return {data_, count_}; }
  std::span<const T> span() const { return {data_, count_}; }
  T& operator[](size_t i) { return data_[i]; }
  const T& operator[](size_t i) const { return data_[i]; }

 private:
  static constexpr size_t kAlignment = 64;
  struct Free {
    void operator()(void* block) const { std::free(block); }
  };
  std::unique_ptr<void, Free> block_;  // data_ is its first aligned byte
  T* data_ = nullptr;
  size_t count_ = 0;
};

}  // namespace ringwood
