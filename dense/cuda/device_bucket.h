// The memory of a dense group on a device, and the two passes that go between it and the trainer's
// tensors. Nothing waits but what says so: streams order everything.
//
//     trainer's streams ── gradients ──► Pack ──► input ── ring ──► output ──► Unpack ──► gradients
//
// The weighted gradients of all tensors, in their type, are summed where they are: input and output
// are one buffer. With codes there are three, of fp32: the ring leaves the next errors where its
// input was; beside it are the present errors, which a round that fails must not touch, and the
// sum.
//
// One thread at a time; not the same one always.
#pragma once

#include <cstdint>
#include <memory>
#include <span>

#include "base/status.h"
#include "dense/cuda/device_codes.h"
#include "transport/data_type.h"

namespace ringwood {

class DeviceBucket {
 public:
  struct Part {
    void* data = nullptr;  // device memory, the trainer's, of the bucket's type
    uint64_t elements = 0;
    void* stream = nullptr;  // cudaStream_t that makes and uses `data`; null: the default stream
    uint64_t first = 0;      // its place in the bucket
  };

  virtual ~DeviceBucket() = default;  // waits for what was put on stream()

  // Host memory that every Pack adds to the elements from `first` on, until Forgive: what tensors
  // owe from a sparse time. Waits for the device.
  virtual Status Owe(uint64_t first, std::span<const float> values) = 0;
  virtual void Forgive() = 0;  // after a sum that held it

  // The next Pack waits for what `stream` holds now and for nothing behind it.
  virtual Status Mark(void* stream) = 0;

  // input = weight * parts (+ owed), each in its place and zeros between them, after the marks of
  // the parts' streams, or where there are none since the last Pack, after what they hold now;
  // with weight 0 zeros (+ owed), and the parts are not read. Parts keep their places.
  virtual Status Pack(std::span<const Part> parts, float weight) = 0;
  // Largest |input| of the last Pack as the bits of a float, Inf and NaN above all numbers. Valid
  // when stream() has done what Pack put on it.
  virtual uint32_t largest() const = 0;

  // parts = output / total, correctly rounded when total is a float, zeros when it is 0: on each
  // part's stream, so before what the trainer puts there next. The ring has ended.
  virtual Status Unpack(std::span<const Part> parts, double total) = 0;

  // Sums of float32 travel as codes of `bits`: from here on there are errors and reaches, the
  // present ones and the next, all of them 0. Once. `less`: LatticeSource's.
  virtual Status UseCodes(int bits, BlockReach less) = 0;
  virtual DeviceCodes codes() const = 0;  // of the next reduction; without UseCodes of 0 bits
  virtual void Commit() = 0;              // the next ones are the present ones, if there are codes
  // The present ones, from an element or a block on. They wait for the device.
  virtual Status ReadError(uint64_t first, std::span<float> into) const = 0;
  virtual Status ReadReach(uint64_t first, std::span<BlockReach> into) const = 0;
  virtual Status WriteReach(uint64_t first, std::span<const BlockReach> from) = 0;

  virtual const void* input() const = 0;  // these two until Commit; without codes the same memory
  virtual void* output() = 0;
  virtual DataType type() const = 0;
  virtual uint64_t elements() const = 0;
  virtual void* stream() const = 0;  // cudaStream_t: Pack is on it
};

// Refused without CUDA or a device. `type`: kFloat32 or kBFloat16.
StatusOr<std::unique_ptr<DeviceBucket>> MakeDeviceBucket(int device, uint64_t elements,
                                                         DataType type);

}  // namespace ringwood
