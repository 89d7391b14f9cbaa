#include "comm/vigil.h"

#include <fmt/format.h>

#include <algorithm>

#include "comm/message.h"

namespace athanor::comm {
namespace {

constexpr int kKeepers = 2;  // ranks that hear of all
/// Beats come every second: a silence over the network is known that much later, and nobody's getting on later still, since
/// silence names a culprit.
constexpr double kBeatSlack = 1.2;
constexpr double kStuckSlack = 2.5;
/// A loop that slept so much longer than it meant to was itself not running.
constexpr double kOwnAbsence = 1;

double seconds_between(Vigil::Time begin, Vigil::Time end) {
  return std::chrono::duration<double>(end - begin).count();
}

}  // namespace

Beat Beat::of(const PulseReading& reading) {
  return {reading.place(), reading.progress, reading.polls, reading.waits_for};
}

Beat Beat::of(std::string_view body) {
  MessageReader reader(body);
  Beat beat;
  beat.place = reader.text();
  beat.progress = static_cast<uint64_t>(reader.number());
  beat.polls = static_cast<uint64_t>(reader.number());
  beat.waits_for = static_cast<int>(reader.number());
  return beat;
}

std::string Beat::body() const {
  return MessageWriter()
      .text(place)
      .number(static_cast<int64_t>(progress))
      .number(static_cast<int64_t>(polls))
      .number(waits_for)
      .body();
}

Vigil::Vigil(int rank, int size)
    : rank_(rank), ranks_(static_cast<size_t>(size)), looked_(Judgement::Clock::now()) {
  const int last = rank < kKeepers ? size : std::min(kKeepers, size);
  for (int other = 0; other < last; ++other) {
    if (other != rank) listeners_.push_back(other);
  }
  begin(looked_);
  begun_ = false;
}

void Vigil::begin(Time now) {
  begun_ = true;
  for (Rank& rank : ranks_) rank.heard = rank.moved = rank.progressed = now;
}

void Vigil::heard(int rank, Time now) { ranks_[static_cast<size_t>(rank)].heard = now; }

void Vigil::beat(int index, const Beat& beat, Time now) {
  Rank& rank = ranks_[static_cast<size_t>(index)];
  if (beat.progress != rank.beat.progress) rank.progressed = rank.moved = now;
  if (beat.polls != rank.beat.polls) rank.moved = now;
  rank.beat = beat;
  rank.known = true;
}

void Vigil::exited(int rank) { ranks_[static_cast<size_t>(rank)].exited = true; }

std::string Vigil::place(int index) const {
  const Rank& rank = ranks_[static_cast<size_t>(index)];
  return rank.known ? rank.beat.place : "";
}

bool Vigil::lost(int rank) const { return ranks_[static_cast<size_t>(rank)].lost; }

/// While this process was stopped it heard nothing, and nobody is to blame for that.
void Vigil::forgive_own_absence(Time now) {
  const auto absence = now - looked_;
  looked_ = now;
  if (std::chrono::duration<double>(absence).count() < kOwnAbsence) return;
  for (Rank& rank : ranks_) {
    rank.heard += absence;
    rank.moved += absence;
    rank.progressed += absence;
  }
}

std::optional<Fault> Vigil::stuck(Time now) const {
  const Rank* waiting = nullptr;
  double shortest = limit_ + kStuckSlack;
  for (const Rank& rank : ranks_) {
    if (rank.exited) continue;
    const double passed = seconds_between(rank.progressed, now);
    if (passed < limit_ + kStuckSlack) return std::nullopt;
    if (waiting == nullptr || passed < shortest) shortest = passed;
    const bool named = rank.beat.waits_for >= 0;
    if (waiting == nullptr || (named && waiting->beat.waits_for < 0)) waiting = &rank;
  }
  if (waiting == nullptr) return std::nullopt;
  const std::string whom = waiting->beat.waits_for >= 0
                               ? fmt::format("waits for rank {}", waiting->beat.waits_for)
                               : "waits";
  return Fault{.kind = Fault::Kind::kStuck,
               .rank = static_cast<int>(waiting - ranks_.data()),
               .seconds = shortest,
               .place = waiting->beat.place,
               .text = whom};
}

std::vector<Fault> Vigil::faults(Time now, bool alive, bool judges) {
  forgive_own_absence(now);
  std::vector<Fault> found;
  const Rank& own = ranks_[static_cast<size_t>(rank_)];
  if (const double silent = seconds_between(own.moved, now); alive && silent > limit_) {
    found.push_back(
        {.kind = Fault::Kind::kSilent, .rank = rank_, .seconds = silent, .place = own.beat.place});
  }
  if (!begun_) return found;
  for (const int index : listeners_) {  // who hears of this rank is heard by it
    Rank& rank = ranks_[static_cast<size_t>(index)];
    const double unheard = seconds_between(rank.heard, now);
    if (rank.lost || unheard < limit_ + kBeatSlack) continue;
    rank.lost = true;
    found.push_back({.kind = Fault::Kind::kUnheard,
                     .rank = index,
                     .seconds = unheard,
                     .place = rank.known ? rank.beat.place : ""});
  }
  if (judges && rank_ < kKeepers && found.empty()) {
    if (const std::optional<Fault> fault = stuck(now)) found.push_back(*fault);
  }
  return found;
}

}  // namespace athanor::comm
