#include "ops/trace.h"

#include "base/error.h"

namespace athanor::ops {
namespace {

using Clock = std::chrono::steady_clock;

void add_flops(TraceEntry& entry, const OpWork& work) {
  if (work.compute == DType::kBF16) {
    entry.bf16_flops += work.flops;
  } else if (work.compute == DType::kF64) {
    entry.f64_flops += work.flops;
  } else {
    entry.f32_flops += work.flops;
  }
}

}  // namespace

double bytes_of(std::initializer_list<Tensor> operands) {
  double bytes = 0;
  for (const Tensor& t : operands) bytes += static_cast<double>(t.bytes());
  return bytes;
}

OpWork moves(const Tensor& shape_of, std::initializer_list<Tensor> operands) {
  OpWork work{.bytes = bytes_of(operands)};
  if (shape_of.rank() == 1) {
    work.shape = {shape_of.cols()};
  } else {
    work.shape = {shape_of.rows(), shape_of.cols()};
  }
  return work;
}

std::string to_text(const OpShape& shape) {
  std::string text;
  for (const int64_t size : shape) {
    if (size == 0) break;
    if (!text.empty()) text += 'x';
    text += std::to_string(size);
  }
  return text;
}

double Trace::seconds() const {
  double sum = 0;
  for (const TraceEntry& entry : entries_) sum += entry.seconds;
  return sum;
}

void Trace::clear() {
  require(depth_ == 0, "a trace is cleared inside a span");
  entries_.clear();
  places_.clear();
}

void Trace::open(std::string_view op, const OpWork& work) {
  if (depth_++ > 0) {
    add_flops(*current_, work);
    return;
  }
  const auto [place, fresh] = places_.try_emplace(Key{part_, op, work.shape}, entries_.size());
  if (fresh) entries_.push_back({.part = part_, .op = op, .shape = work.shape});
  current_ = &entries_[place->second];
  ++current_->calls;
  current_->bytes += work.bytes;
  add_flops(*current_, work);
  start_ = Clock::now();
}

void Trace::close() {
  if (--depth_ > 0) return;
  current_->seconds += std::chrono::duration<double>(Clock::now() - start_).count();
}

std::string_view Trace::exchange_part(std::string_view part) {
  const std::string_view before = part_;
  part_ = part;
  return before;
}

}  // namespace athanor::ops
