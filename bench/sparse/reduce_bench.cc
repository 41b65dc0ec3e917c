// What a reducer does with its children's entries, stage by stage, on one core: nanoseconds an
// entry that comes in, beside the plain reference where there is one.
//
//   reduce_bench [ELEMENTS [K [CHILDREN]]]     of one index range: 4000000 62500 4
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <string>
#include <vector>

#include "bench/best.h"
#include "sparse/codec.h"
#include "sparse/cut.h"
#include "sparse/merge.h"
#include "sparse/select.h"
#include "sparse/spread_entries.h"

namespace ringwood {
namespace {

constexpr int kRepeats = 15;

// The best of some; `prepare` is not timed.
void Time(const std::string& stage, uint64_t entries, const std::function<void()>& prepare,
          const std::function<void()>& work) {
  const double best = Best(kRepeats, work, prepare);
  std::printf("%-28s %7.2f ns an entry\n", stage.c_str(),
              1e9 * best / static_cast<double>(entries));
}

void Run(uint64_t elements, uint64_t k, uint64_t count) {
  std::vector<Entries> children;
  for (uint64_t c = 0; c < count; ++c) children.push_back(SpreadEntries(elements, k, c + 1));
  const uint64_t total = count * k;
  const auto nothing = [] {};
  for (const char* name : {"block16/fp32", "rice/int8"}) {
    const Codec codec = *ParseCodec(name);
    std::vector<std::byte> wire(MaxWireBytes(codec, elements, k));
    uint64_t bytes = 0;
    Time(std::string("encode ") + name, k, nothing, [&] {
      bytes = Encode(codec, {0, elements}, children[0], wire);
    });
    Entries back;
    Time(
        std::string("decode ") + name, k, [&] { back.clear(); },
        [&] {
          const Status read = Decode(codec, {0, elements}, k, std::span(wire).first(bytes), &back);
          if (!read.ok()) std::abort();
        });
  }
  BlockRoom room;
  Merger merger;
  Time(
      "add", total, [&] { merger.Restart(count); },
      [&] { merger.Advance(children, elements, elements, &room); });
  Time("add, plainly", total, nothing, [&] { (void)MergeSumPlain(children); });
  const Entries sum = *merger.sum();
  Entries cut;
  Time(
      "cut", total, [&] { cut = sum; }, [&] { KeepLargest(k, &cut); });
  std::vector<std::vector<std::byte>> bits;
  Time("accepted bits", total, nothing, [&] { PackAcceptedOf(cut.index, children, &room, &bits); });
  Time("accepted bits, plainly", total, nothing, [&] {
    for (const Entries& child : children) (void)AcceptedOf(child.index, cut.index);
  });
}

}  // namespace
}  // namespace ringwood

int main(int argc, char** argv) {
  const auto number = [&](int at, uint64_t otherwise) {
    return argc > at ? std::strtoull(argv[at], nullptr, 10) : otherwise;
  };
  ringwood::Run(number(1, 4000000), number(2, 62500), number(3, 4));
}
