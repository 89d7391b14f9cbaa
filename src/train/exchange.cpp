#include "train/exchange.h"

#include <algorithm>

namespace athanor::train {

Exchange::Exchange(const optim::Partition& partition, const model::Parameters& parameters,
                   comm::Communicator& communicator)
    : communicator_(communicator) {
  if (communicator_.size() == 1) return;
  const size_t size = size_of(ops::real_dtype(parameters.precision()));
  const auto most = static_cast<int64_t>(communicator_.largest_part() / size);
  const int64_t matrices = parameters.matrices_begin();
  for (const optim::Piece& piece : partition.pieces()) {
    for (int64_t at = piece.begin; at < piece.end; at = parts_.back().end) {
      int64_t end = std::min(at + most, piece.end);
      if (at < matrices) end = std::min(end, matrices);  // the two need not lie together
      parts_.push_back({at, end, piece.owner});
    }
  }
  require(parts_.size() < static_cast<size_t>(comm::Communicator::kTags),
          "exchange: more parts than tags");
  missing_.resize(parts_.size());
}

void Exchange::begin(const model::FlatSpace& space) {
  space_ = space;
  for (size_t i = 0; i < parts_.size(); ++i) missing_[i] = parts_[i].end - parts_[i].begin;
}

template <class Complete>
void Exchange::count(int64_t begin, int64_t end, Complete complete) {
  auto part = std::ranges::upper_bound(parts_, begin, {}, &Part::end);
  for (; part != parts_.end() && part->begin < end; ++part) {
    int64_t& missing = missing_[static_cast<size_t>(part - parts_.begin())];
    missing -= std::min(end, part->end) - std::max(begin, part->begin);
    require(missing >= 0, "exchange: an element came twice");
    if (missing == 0) complete(*part, static_cast<int>(part - parts_.begin()));
  }
}

void Exchange::begin_gradients(const model::FlatSpace& gradient) { begin(gradient); }

void Exchange::ready(const model::Parameter& parameter) {
  count(parameter.offset, parameter.offset + parameter.spec.numel(),
        [&](const Part& part, int tag) {
          communicator_.start_reduce(elements(part), part.owner, tag);
        });
}

void Exchange::all_ready() {
  for (size_t i = 0; i < parts_.size(); ++i) {
    const Part& part = parts_[i];
    missing_[i] = 0;
    communicator_.start_reduce(elements(part), part.owner, static_cast<int>(i));
  }
}

void Exchange::begin_values(const model::FlatSpace& values) {
  begin(values);
  for (size_t i = 0; i < parts_.size(); ++i) {
    const Part& part = parts_[i];
    if (part.owner == communicator_.rank()) continue;
    missing_[i] = 0;
    communicator_.start_share(elements(part), part.owner, static_cast<int>(i));
  }
}

void Exchange::moved(int64_t begin, int64_t end) {
  count(begin, end, [&](const Part& part, int tag) {
    communicator_.start_share(elements(part), part.owner, tag);
  });
}

void Exchange::finish() {
  require(std::ranges::all_of(missing_, [](int64_t missing) { return missing == 0; }),
          "exchange: an element never came");
  communicator_.finish();
}

}  // namespace athanor::train
