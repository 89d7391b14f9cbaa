#include "comm/judgement.h"

#include <fmt/format.h>

#include <algorithm>
#include <csignal>
#include <cstring>

#include "base/error.h"
#include "comm/message.h"

namespace athanor::comm {
namespace {

/// So long others may end with the code that one has ended with.
constexpr auto kCodePatience = std::chrono::seconds(3);
/// So long a likelier cause may follow the first fault, and so long when all that is known are consequences.
constexpr auto kCausePatience = std::chrono::milliseconds(400);
constexpr auto kConsequencePatience = std::chrono::seconds(2);

bool in_order(int code) {
  return code == static_cast<int>(ExitCode::kDone) || code == static_cast<int>(ExitCode::kStopped);
}

/// 0 is a cause; what is greater may follow from one.
int grade(const Fault& fault) {
  switch (fault.kind) {
    case Fault::Kind::kSignal:
      return fault.number == SIGABRT || fault.number == SIGPIPE ? 1 : 0;  // how a library gives up
    case Fault::Kind::kCode:
      return fault.number == static_cast<int>(ExitCode::kPeer) ? 2 : in_order(fault.number) ? 3 : 1;
    case Fault::Kind::kStuck:
      return 1;
    case Fault::Kind::kUnreachable:
      return 2;
    default:
      return 0;
  }
}

}  // namespace

std::string Fault::body() const {
  return MessageWriter()
      .number(static_cast<int64_t>(kind))
      .number(rank)
      .number(number)
      .number(static_cast<int64_t>(seconds * 1000))
      .text(place)
      .text(text)
      .body();
}

Fault Fault::of(std::string_view body) {
  MessageReader reader(body);
  Fault fault;
  fault.kind = static_cast<Kind>(reader.number());
  fault.rank = static_cast<int>(reader.number());
  fault.number = static_cast<int>(reader.number());
  fault.seconds = static_cast<double>(reader.number()) / 1000;
  fault.place = reader.text();
  fault.text = reader.text();
  return fault;
}

std::string WorkerExit::body() const {
  return MessageWriter().number(rank).number(code).text(place).text(text).body();
}

WorkerExit WorkerExit::of(std::string_view body) {
  MessageReader reader(body);
  WorkerExit ended;
  ended.rank = static_cast<int>(reader.number());
  ended.code = static_cast<int>(reader.number());
  ended.place = reader.text();
  ended.text = reader.text();
  return ended;
}

std::string signal_name(int number) {
  const char* name = sigabbrev_np(number);
  return name != nullptr ? std::string("SIG") + name : "signal " + std::to_string(number);
}

void Judgement::exited(const WorkerExit& ended, Time now) {
  if (exits_.empty()) first_exit_ = now;
  exits_.emplace(ended.rank, ended);
  check_codes(now);
}

/// One fault a rank: the likelier cause of its loss.
void Judgement::add(const Fault& fault, Time now) {
  const auto known =
      std::ranges::find_if(faults_, [&](const Known& one) { return one.fault.rank == fault.rank; });
  if (known == faults_.end()) {
    faults_.push_back({fault, now});
  } else if (grade(fault) < grade(known->fault)) {
    known->fault = fault;
  }
}

/// Codes that differ, or that others did not come to in time.
void Judgement::check_codes(Time now) {
  if (exits_.empty()) return;
  const int code = exits_.begin()->second.code;
  const bool equal =
      std::ranges::all_of(exits_, [&](const auto& entry) { return entry.second.code == code; });
  const bool late =
      !in_order(code) && exits_.size() < hosts_.size() && now - first_exit_ > kCodePatience;
  if (equal && !late) return;
  for (const auto& [rank, ended] : exits_) {
    add({.kind = Fault::Kind::kCode,
         .rank = rank,
         .number = ended.code,
         .place = ended.place,
         .text = ended.text},
        now);
  }
}

bool Judgement::hopeless() const {
  return std::ranges::any_of(faults_, [](const Known& one) { return grade(one.fault) < 2; });
}

std::optional<Judgement::Outcome> Judgement::outcome(Time now) {
  check_codes(now);
  if (faults_.empty()) {
    if (exits_.size() < hosts_.size()) return std::nullopt;
    const WorkerExit& first = exits_.begin()->second;
    return Outcome{first.code, first.text};
  }
  // Nothing explains a parent's end better, and the launcher that has seen it may end this process at any moment.
  const bool parent_lost = std::ranges::any_of(
      faults_, [](const Known& one) { return one.fault.kind == Fault::Kind::kParentLost; });
  const auto patience = hopeless() ? std::chrono::milliseconds(kCausePatience)
                                   : std::chrono::milliseconds(kConsequencePatience);
  if (!parent_lost && now - faults_.front().time < patience) return std::nullopt;
  return Outcome{static_cast<int>(ExitCode::kPeer), line()};
}

Judgement::Outcome Judgement::of_one(int rank) const {
  if (const auto ended = exits_.find(rank); ended != exits_.end()) {
    return {ended->second.code, ended->second.text};
  }
  return {static_cast<int>(ExitCode::kPeer), line()};
}

std::string Judgement::line_of(const Fault& fault) const {
  const auto index = static_cast<size_t>(fault.rank);
  const std::string who =
      fmt::format("rank {} on host {}", fault.rank, index < hosts_.size() ? hosts_[index] : "?");
  const std::string where = fault.place.empty() ? "" : " " + fault.place;
  const std::string more = fault.text.empty() ? "" : ": " + fault.text;
  switch (fault.kind) {
    case Fault::Kind::kSignal:
      return fmt::format("{} was killed by {}{}{}", who, signal_name(fault.number), where, more);
    case Fault::Kind::kParentLost:
      return fmt::format("{} was lost with its parent process{}", who, where);
    case Fault::Kind::kLauncherLost:
      return fmt::format("{} was left alone{}: its launcher has ended", who, where);
    case Fault::Kind::kSilent:
      return fmt::format("{} has been silent for {:.0f} s{}{}", who, fault.seconds, where, more);
    case Fault::Kind::kUnheard:
      return fmt::format(
          "nothing was heard of {} for {:.0f} s, last{}: its host or the network is lost", who,
          fault.seconds, where);
    case Fault::Kind::kUnreachable:
      return who + " is not in reach" + more;
    case Fault::Kind::kCode:
      return fmt::format("{} ended with code {}{}, its peers did not{}", who, fault.number, where,
                         more);
    case Fault::Kind::kStuck:
      return fmt::format("no rank has got on for {:.0f} s: {} {}{}", fault.seconds, who, fault.text,
                         where);
  }
  return who + " failed";
}

/// The likeliest cause, the first of its kind, and who else is lost.
std::string Judgement::line() const {
  const auto cause = std::ranges::min_element(
      faults_, {}, [](const Known& one) { return std::pair(grade(one.fault), one.time); });
  std::string text = line_of(cause->fault);
  std::string others;
  for (const Known& one : faults_) {
    if (&one == &*cause || grade(one.fault) > 0 || grade(cause->fault) > 0) continue;
    others += fmt::format("{}{}", others.empty() ? "" : ", ", one.fault.rank);
    if (one.fault.kind == Fault::Kind::kSignal)
      others += " (" + signal_name(one.fault.number) + ")";
  }
  if (!others.empty()) text += "; lost, too: rank " + others;
  return text;
}

}  // namespace athanor::comm
