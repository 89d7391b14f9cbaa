#include "train/global_batch.h"

#include <algorithm>

namespace athanor::train {

GlobalBatch::GlobalBatch(int64_t sequences, int64_t longest, int64_t micro_batch, Arena& arena)
    : ids_(arena.tensor(DType::kI32, {sequences * longest})),
      targets_of_(arena.tensor(DType::kI32, {sequences * longest})),
      segment_begins_(arena.tensor(DType::kI32, {sequences * longest})),
      segment_counts_(arena.tensor(DType::kI32, {sequences})),
      begins_(arena.tensor(DType::kI64, {micro_batch * longest + 1})) {
  sample_begins_.reserve(static_cast<size_t>(longest));
}

void GlobalBatch::fetch(const data::Loader& loader, const StepPlan& plan, uint64_t offset,
                        int64_t first, int64_t count) {
  length_ = plan.sequence;
  sequences_ = count;
  targets_ = visible_keys_ = 0;
  const auto length = static_cast<size_t>(length_);
  for (int64_t i = 0; i < count; ++i) {
    const std::span ids(ids_.as<int32_t>() + i * length_, length);
    const std::span targets(targets_of_.as<int32_t>() + i * length_, length);
    loader.fetch(plan.phase, plan.first_sample + offset + static_cast<uint64_t>(first + i), ids,
                 targets, sample_begins_);
    targets_ += std::count_if(targets.begin(), targets.end(), [](int32_t t) { return t >= 0; });
    std::copy(sample_begins_.begin(), sample_begins_.end(),
              segment_begins_.as<int32_t>() + i * length_);
    segment_counts_.as<int32_t>()[i] = static_cast<int32_t>(sample_begins_.size());
    for (size_t s = 0; s < sample_begins_.size(); ++s) {
      const int64_t end = s + 1 < sample_begins_.size() ? sample_begins_[s + 1] : length_;
      const int64_t tokens = end - sample_begins_[s];
      visible_keys_ += tokens * (tokens + 1) / 2;
    }
  }
}

double GlobalBatch::mean_keys() const {
  return static_cast<double>(visible_keys_) / static_cast<double>(sequences_ * length_);
}

const model::Batch& GlobalBatch::micro_batch(int64_t first, int64_t count) {
  int64_t* begins = begins_.as<int64_t>();
  size_t segments = 0;
  for (int64_t i = 0; i < count; ++i) {
    const int32_t* of_sequence = segment_begins_.as<int32_t>() + (first + i) * length_;
    for (int32_t s = 0; s < segment_counts_.as<int32_t>()[first + i]; ++s) {
      begins[segments++] = i * length_ + of_sequence[s];
    }
  }
  begins[segments] = count * length_;
  batch_.begins = {begins, segments + 1};
  batch_.ids = Tensor::of(ids_.as<int32_t>() + first * length_, {count * length_});
  batch_.targets = Tensor::of(targets_of_.as<int32_t>() + first * length_, {count * length_});
  return batch_;
}

const model::Batch& GlobalBatch::planned_batch(int64_t count, int64_t length,
                                               bool one_segment_a_token) {
  planned_begins_.clear();
  const int64_t step = one_segment_a_token ? 1 : length;
  for (int64_t t = 0; t <= count * length; t += step) planned_begins_.push_back(t);
  batch_.ids = Tensor::of(ids_.as<int32_t>(), {count * length});
  batch_.targets = Tensor::of(targets_of_.as<int32_t>(), {count * length});
  batch_.begins = planned_begins_;
  return batch_;
}

}  // namespace athanor::train
