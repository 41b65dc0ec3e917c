// How the device's kernels work, which their results do not show: launches, meetings of all blocks,
// scans and wide loads are counted in the emulation.
#include <gtest/gtest.h>

#include <bit>

#include "tests/sparse/emulated_group.h"

namespace ringwood {
namespace {

TEST(CudaWork, AllOfATilesLoadsAreOnTheirWayBeforeItsFirstStore) {
  EmulatedGroup device({{9000, 90, 0.9f}, {4096, 10}}, 2);
  const auto first = Gradient(9000, kKinds - 1, 1), second = Gradient(4096, kKinds - 1, 2);
  EmulatedThread::Forget();
  device.Accumulate({first.data(), second.data()}, {1, 1});
  // Residual and momentum of the first, residual of the second, and gradients that are aligned.
  EXPECT_GE(EmulatedThread::counts().vector_loads, (2 * 9000 + 4096) / 4u);
  EXPECT_EQ(EmulatedThread::counts().late_loads, 0u);
}

TEST(CudaWork, OnceTheGuessIsGoodAllBlocksMeetTwice) {
  const std::vector<TensorShape> shapes = {{40000, 100}, {9000, 90}, {20, 20}};
  EmulatedGroup device(shapes, 3);
  int steady = 0;
  for (int step = 0; step < 8; ++step) {
    std::vector<std::vector<float>> gradients;
    std::vector<const float*> pointers;
    for (const TensorShape& shape : shapes) {
      gradients.push_back(Gradient(shape.elements, kKinds - 1, 3 * step + gradients.size()));
      pointers.push_back(gradients.back().data());
    }
    EmulatedThread::Forget();
    device.Step(pointers, {1, 0});
    const bool whole = device.outcome(0).dense + device.outcome(1).dense != 0;
    if (whole) continue;
    EXPECT_EQ(EmulatedThread::counts().grid_syncs, 2u) << step;
    ++steady;
  }
  EXPECT_GT(steady, 3);
}

TEST(CudaWork, TheWholeResidualIsReadFourAtATime) {
  const uint64_t elements = 40000;
  EmulatedGroup device({{elements, 100}}, 2);
  const auto gradient = Gradient(elements, kKinds - 1, 1);
  device.Accumulate({gradient.data()}, {1, 1});
  EmulatedThread::Forget();
  device.Refine();
  ASSERT_EQ(device.outcome(0).dense, 1u);
  EXPECT_GE(EmulatedThread::counts().vector_loads, 2 * elements / 4);  // a histogram, the counts
  EXPECT_LE(EmulatedThread::counts().vector_loads, 4 * elements / 4 + 64);
}

// More keys beside the threshold than one block settles, in three shapes: neighbours in one bin of
// the first round, all larger than its bins, and equal ones.
TEST(CudaWork, AThresholdInACrowdTakesFurtherRounds) {
  const uint64_t elements = 3 * cuda::kNear, k = 700;
  for (int shape = 0; shape < 3; ++shape) {
    EmulatedGroup device({{elements, k}}, 2);
    Plain plain({elements, k});
    for (int step = 0; step < 5; ++step) {
      std::vector<float> gradient(elements, 1.0f);
      for (uint64_t i = 0; i < elements && shape < 2; ++i) {
        const uint64_t place = i * 7919 % elements;
        gradient[i] = shape == 0 ? std::bit_cast<float>(0x3f800000u + static_cast<uint32_t>(place))
                                 : (1 + place) * (step == 3 ? 1e6f : 1.0f);
      }
      EmulatedThread::Forget();
      device.Step({gradient.data()}, {1, 0});
      ASSERT_EQ(device.Picks(0), plain.Step(gradient.data(), {1, 0})) << shape << " " << step;
      EXPECT_LE(EmulatedThread::counts().grid_syncs, cuda::kRounds + 1u);
    }
  }
}

// Every block finds the places of its own tiles from the sums of the blocks before it.
TEST(CudaWork, PlacesTakeAScanABlockWhateverTheTensorsAre) {
  for (const uint32_t blocks : {1u, 2u, 3u, 7u, 20u}) {
    Random random(blocks);
    std::vector<cuda::TensorView> tensors;
    std::vector<uint32_t> tile_tensor;
    for (const uint32_t tiles : {1u, 15u, 300u, 1u, 1u, 40u}) {
      tensors.push_back({.first_tile = static_cast<uint32_t>(tile_tensor.size()), .tiles = tiles});
      tile_tensor.insert(tile_tensor.end(), tiles, static_cast<uint32_t>(tensors.size() - 1));
    }
    const auto tiles = static_cast<uint32_t>(tile_tensor.size());
    std::vector<cuda::TensorState> states(tensors.size());
    for (auto& state : states) state.need = static_cast<uint32_t>(random.Below(40));
    std::vector<uint32_t> larger(tiles), ties(tiles), expected_larger, expected_ties;
    std::vector<uint32_t> block_larger(blocks), block_ties(blocks);
    cuda::GroupView group;
    group.tiles = tiles;
    for (uint32_t i = 0, larger_before = 0, ties_before = 0; i < tiles; ++i) {
      const uint32_t t = tile_tensor[i], block = cuda::BlockOfTile(group, i, blocks);
      EXPECT_LE(cuda::FirstTile(group, block, blocks), i);
      EXPECT_GT(cuda::FirstTile(group, block + 1, blocks), i);
      if (i == tensors[t].first_tile) {
        larger_before = ties_before = block_larger[block] = block_ties[block] = 0;
      }
      larger[i] = static_cast<uint32_t>(random.Below(5));
      ties[i] = static_cast<uint32_t>(random.Below(3));
      expected_larger.push_back(larger_before + std::min(ties_before, states[t].need));
      expected_ties.push_back(ties_before);
      larger_before += larger[i];
      ties_before += ties[i];
      block_larger[block] += larger[i];
      block_ties[block] += ties[i];
    }
    group.tensors = tensors.data();
    group.states = states.data();
    group.tile_tensor = tile_tensor.data();
    group.tile_larger = larger.data();
    group.tile_ties = ties.data();
    group.block_larger = block_larger.data();
    group.block_ties = block_ties.data();
    EmulatedGrid::RunEach(blocks, [&, shared = cuda::ScanShared{}](EmulatedThread& thread) mutable {
      cuda::ForTensors(thread, group, [&](uint32_t t, uint32_t begin, uint32_t end) {
        cuda::PlaceTiles(thread, shared, group, t, begin, end);
      });
    });
    EXPECT_EQ(larger, expected_larger) << blocks;
    EXPECT_EQ(ties, expected_ties) << blocks;
  }
}

// Candidates that grow by a share of the threshold a step, as residuals do: so many more than k
// are above a floor as are within the gap. The guess finds the gap for any growth, and a list that
// is long enough needs no pass over the whole residual.
TEST(CudaWork, TheGuessFollowsHowDenselyResidualsStandBelowTheThreshold) {
  const uint32_t k = 10000, room = 2 * k + 4096;
  for (const double growth : {0.1, 0.01, 0.001, 0.0001}) {
    float guess = 0.9f;
    Random random(1);
    int missed = 0;
    for (int step = 0; step < 600; ++step) {
      const double moved = growth * 0.1 * (random.Unit() - 0.5);  // of the threshold
      const auto candidates = static_cast<uint32_t>(
          std::max(0.0, std::min(1e9, k * (1 + (1 - guess + moved) / growth))));
      if (step >= 500) missed += candidates < k || candidates > room;
      guess = cuda::NextGuess(guess, candidates, k, room);
    }
    EXPECT_LT((1 - guess) / growth, 0.6) << growth;
    EXPECT_LE(missed, 2) << growth;
  }
}

TEST(CudaWork, AWarpFindsTheFirstEntryOfATile) {
  Random random(1);
  for (const uint32_t count : {0u, 1u, 2u, 31u, 32u, 33u, 34u, 66u, 1000u, 40000u}) {
    std::vector<uint32_t> index;
    for (uint32_t i = 0, at = 0; i < count; ++i) {
      index.push_back(at += 1 + static_cast<uint32_t>(random.Below(5)));
    }
    cuda::ResultView result;
    result.index = index.data();
    result.count = count;
    std::vector<uint64_t> places = {0, 1, UINT64_MAX};
    for (int i = 0; i < 40 && count > 0; ++i) {
      places.push_back(index[random.Below(count)] + random.Below(3) - 1);
    }
    if (count > 0) places.insert(places.end(), {index.front(), index.back(), index.back() + 1ull});
    for (const uint64_t at : places) {
      const auto expected = std::lower_bound(index.begin(), index.end(), at) - index.begin();
      EmulatedThread::Forget();
      EmulatedGrid::Run(1, [&](EmulatedThread& thread) {
        if (thread.warp() != 0) return;
        EXPECT_EQ(cuda::EntryAt(thread, result, at), expected) << count << " " << at;
      });
    }
  }
}

TEST(CudaWork, TheAveragesOfAllTensorsTakeOneLaunch) {
  const std::vector<TensorShape> shapes = {{5001, 1}, {1, 1}, {8192, 1}, {30, 1}};
  EmulatedGroup device(shapes, 1);
  for (const size_t shift : {0, 1}) {
    std::vector<Buffer<float>> gradients;
    std::vector<const float*> pointers;
    for (const TensorShape& shape : shapes) {
      gradients.push_back(Buffer<float>(shape.elements + 1));
      std::fill_n(gradients.back().data(), shape.elements + 1, 7.0f);
      pointers.push_back(gradients.back().data() + shift);
    }
    device.Accumulate(pointers, {1, 1});
    Entries sum;
    // The first and last of tensors and tiles, and a tile without any.
    for (uint32_t i : {0, 4095, 4096, 5000, 5001, 5002, 5003, 13193, 13194, 13223}) {
      sum.push_back(i, 0.1f * static_cast<float>(i + 1));
    }
    device.Scatter(sum, 0.7);
    std::vector<float> expected(13224);
    for (size_t i = 0; i < sum.size(); ++i) {
      expected[sum.index[i]] = static_cast<float>(sum.value[i] / 0.7);
    }
    size_t first = 0;
    for (size_t t = 0; t < shapes.size(); ++t) {
      EXPECT_TRUE(SameBits({pointers[t], shapes[t].elements},
                           std::span(expected).subspan(first, shapes[t].elements)));
      EXPECT_EQ(gradients[t][shift == 0 ? shapes[t].elements : 0], 7.0f);  // beside it
      first += shapes[t].elements;
    }
    device.Scatter({}, 0);
    EXPECT_EQ(pointers[0][0], 0.0f);
  }
}

}  // namespace
}  // namespace ringwood
