#include "comm/parent.h"

#include <fmt/format.h>
#include <poll.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <map>
#include <optional>
#include <thread>

#include "base/error.h"
#include "comm/child.h"
#include "comm/judgement.h"
#include "comm/mesh.h"
#include "comm/message.h"
#include "comm/pulse.h"
#include "comm/vigil.h"

namespace athanor::comm {
namespace {

using namespace std::chrono_literals;

/// The longest sleep of the loop: how late a silence may be noticed.
constexpr int kRoundMilliseconds = 200;
/// A stop that a launcher sends because a rank has died comes about when the news of that death does; it is held back so long.
constexpr auto kSignalHold = 250ms;
/// So long a rank waits for another to say what has happened, before it says so itself.
constexpr auto kVerdictPatience = 3s;
/// So long a launcher may take to carry a line to the terminal.
constexpr auto kCarried = 200ms;
/// So long the last messages may take.
constexpr auto kFarewell = 1s;

/// One parent, from the start of its worker to the exit code.
class Parent {
 public:
  explicit Parent(const Launch& launch)
      : launch_(launch),
        vigil_(launch.rank, launch.size),
        judgement_(std::vector<std::string>(static_cast<size_t>(launch.size), own_host_name())) {}

  int run();

 private:
  void round();
  void take_signals();
  void reap();
  void hear_worker();
  void begin_world(const std::string& body);
  void hear_peers(const std::vector<pollfd>& polled);
  void hear(int rank, const Message& message);
  void keep_vigil(Clock::time_point now);
  void beat(Clock::time_point now);
  void pass_signals_on(Clock::time_point now);
  /// Something is wrong with a rank: all shall know.
  void learn(const Fault& fault);
  void tell_all(MessageKind kind, const std::string& body);
  /// The exit code, once it is settled and what there is to say is said.
  std::optional<int> decide(Clock::time_point now);
  std::optional<int> decide_alone(Clock::time_point now);
  bool judges() const;
  static void say(const std::string& line);
  void farewell(bool linger);

  Launch launch_;
  std::optional<Child> child_;
  Channel worker_;
  Mesh mesh_;
  Vigil vigil_;
  Judgement judgement_;
  std::vector<std::pair<MessageKind, std::string>>
      told_;                           ///< what a peer that connects late must hear
  std::optional<WorkerExit> failure_;  ///< what the worker said before its end
  std::map<int, Clock::time_point> held_signals_;
  std::optional<Clock::time_point> settled_;
  Clock::time_point beaten_;
  Clock::time_point alone_since_;
  bool world_known_ = false;
  bool met_ = false;
  bool verdict_heard_ = false;
};

int Parent::run() {
  child_.emplace(launch_);
  worker_ = Channel(child_->take_socket());
  worker_.send(MessageKind::kAddress, mesh_.address());
  while (true) {
    round();
    const Clock::time_point now = Clock::now();
    if (const std::optional<int> code = world_known_ ? decide(now) : decide_alone(now))
      return *code;
  }
}

void Parent::round() {
  std::vector<pollfd> polled = {{child_->signals(), POLLIN, 0},
                                {worker_.open() ? worker_.fd() : -1, POLLIN, 0}};
  if (worker_.unsent()) polled[1].events |= POLLOUT;
  mesh_.watch(polled);
  poll(polled.data(), polled.size(), kRoundMilliseconds);
  // Peers before signals: a stop that follows a death is not passed on.
  hear_peers(polled);
  hear_worker();
  take_signals();
  reap();
  const Clock::time_point now = Clock::now();
  keep_vigil(now);
  pass_signals_on(now);
  beat(now);
}

void Parent::take_signals() {
  for (const int number : child_->taken_signals()) held_signals_.emplace(number, Clock::now());
}

void Parent::pass_signals_on(Clock::time_point now) {
  if (judgement_.faulty()) held_signals_.clear();
  std::erase_if(held_signals_, [&](const auto& held) {
    if (now - held.second < kSignalHold) return false;
    child_->expect_end_by(held.first);
    worker_.send(MessageKind::kSignal, MessageWriter().number(held.first).body());
    return true;
  });
}

void Parent::reap() {
  const std::optional<ChildEnd> end = child_->reap();
  if (!end) return;
  hear_worker();  // its last words
  const std::string place = child_->pulse().read().place();
  const int rank = launch_.rank;
  if (end->signal != 0 && !end->expected) {
    learn({.kind = Fault::Kind::kSignal,
           .rank = rank,
           .number = end->signal,
           .place = place,
           .text = end->note});
    return;
  }
  WorkerExit ended{.rank = rank, .code = end->code, .place = place, .text = ""};
  if (end->signal != 0) {
    // Before the ranks know of each other a SIGTERM is most likely how the launcher ends them because of one of them; 7 would
    // say that somebody wanted the run to stop, and srun gives the highest code of all.
    const bool wanted = world_known_ || end->signal == SIGINT;
    ended.code = static_cast<int>(wanted ? ExitCode::kStopped : ExitCode::kPeer);
    if (wanted) ended.text = "ended by " + signal_name(end->signal);
  } else if (failure_ && failure_->code == end->code) {
    ended.text = failure_->text;
  }
  judgement_.exited(ended, Clock::now());
  vigil_.exited(rank);
  tell_all(MessageKind::kExit, ended.body());
}

void Parent::hear_worker() {
  std::vector<Message> messages;
  worker_.flush();
  worker_.receive(messages);
  for (const Message& message : messages) {
    MessageReader reader(message.body);
    switch (message.kind) {
      case MessageKind::kWorld:
        begin_world(message.body);
        break;
      case MessageKind::kLimit:
        vigil_.set_limit(static_cast<double>(reader.number()) / 1000);
        break;
      case MessageKind::kFailure:
        failure_.emplace();
        failure_->code = static_cast<int>(reader.number());
        failure_->text = reader.text();
        break;
      default:
        break;
    }
  }
}

void Parent::begin_world(const std::string& body) {
  MessageReader reader(body);
  const std::string bytes = reader.text();
  Secret secret{};
  std::copy_n(bytes.begin(), std::min(bytes.size(), secret.size()), secret.begin());
  std::vector<std::string> addresses;
  for (int64_t left = reader.number(); left > 0; --left) addresses.push_back(reader.text());
  mesh_.meet(launch_.rank, secret, addresses);
  judgement_ = Judgement(mesh_.hosts());
  world_known_ = true;
}

void Parent::hear_peers(const std::vector<pollfd>& polled) {
  for (const PeerEvent& event : mesh_.work(polled)) {
    if (event.message) {
      hear(event.rank, *event.message);
    } else if (!judgement_.has_exited(event.rank)) {
      learn({.kind = Fault::Kind::kParentLost,
             .rank = event.rank,
             .place = vigil_.place(event.rank)});
    }
  }
  for (const int rank : mesh_.take_newly_connected()) {
    for (const auto& [kind, body] : told_) mesh_.send(rank, kind, body);
  }
  if (mesh_.met() && !met_) {
    met_ = true;
    vigil_.begin(Clock::now());
    worker_.send(MessageKind::kMet, "");
  }
  if (const auto missing = mesh_.unreachable()) {
    learn({.kind = Fault::Kind::kUnreachable, .rank = missing->first, .text = missing->second});
  }
}

void Parent::hear(int rank, const Message& message) {
  const Clock::time_point now = Clock::now();
  vigil_.heard(rank, now);
  switch (message.kind) {
    case MessageKind::kBeat:
      vigil_.beat(rank, Beat::of(message.body), now);
      break;
    case MessageKind::kExit:
      judgement_.exited(WorkerExit::of(message.body), now);
      vigil_.exited(rank);
      break;
    case MessageKind::kFault:
      judgement_.add(Fault::of(message.body), now);
      break;
    case MessageKind::kVerdict:
      verdict_heard_ = true;
      break;
    default:
      break;
  }
}

void Parent::keep_vigil(Clock::time_point now) {
  if (child_->alive()) vigil_.beat(launch_.rank, Beat::of(child_->pulse().read()), now);
  if (judgement_.faulty()) return;
  for (Fault& fault : vigil_.faults(now, child_->alive(), judges())) {
    if (fault.kind == Fault::Kind::kSilent && child_->stopped())
      fault.text = "it is stopped (SIGSTOP)";
    learn(fault);
  }
  if (child_->launcher_lost())
    learn({.kind = Fault::Kind::kLauncherLost,
           .rank = launch_.rank,
           .place = child_->pulse().read().place()});
}

void Parent::beat(Clock::time_point now) {
  if (!met_ || now - beaten_ < 1s) return;
  beaten_ = now;
  const std::string body = Beat::of(child_->pulse().read()).body();
  for (const int rank : vigil_.listeners()) mesh_.send(rank, MessageKind::kBeat, body);
}

void Parent::learn(const Fault& fault) {
  judgement_.add(fault, Clock::now());
  tell_all(MessageKind::kFault, fault.body());
}

void Parent::tell_all(MessageKind kind, const std::string& body) {
  told_.emplace_back(kind, body);
  mesh_.send_all(kind, body);
}

/// The lowest rank that is left speaks for all.
bool Parent::judges() const {
  for (int rank = 0; rank < launch_.rank; ++rank) {
    if (mesh_.connected(rank) && !vigil_.lost(rank)) return false;
  }
  return true;
}

void Parent::say(const std::string& line) {
  std::string text = "athanor: " + line;
  std::replace(text.begin(), text.end(), '\n', ' ');
  text += '\n';
  [[maybe_unused]] const ssize_t written = write(STDERR_FILENO, text.data(), text.size());
}

std::optional<int> Parent::decide(Clock::time_point now) {
  const std::optional<Judgement::Outcome> outcome = judgement_.outcome(now);
  if (!outcome) {
    if (judgement_.hopeless()) child_->kill();
    return std::nullopt;
  }
  if (!settled_) settled_ = now;
  if (!judgement_.faulty()) {
    if (outcome->code != 0 && launch_.rank == 0 && !outcome->line.empty()) say(outcome->line);
    farewell(false);
    take_leave(launch_);
    return outcome->code;
  }
  const bool speaks = judges() || now - *settled_ > kVerdictPatience;
  // What there is to say comes first: a launcher that has seen a process die may end this one at any moment.
  if (!verdict_heard_ && speaks) {
    say(outcome->line);
    mesh_.send_all(MessageKind::kVerdict, "");
  }
  child_->kill();
  if (!verdict_heard_ && !speaks) return std::nullopt;
  farewell(!verdict_heard_);
  take_leave(launch_);
  return outcome->code;
}

/// Before the parents know of each other each can only speak for its own worker.
std::optional<int> Parent::decide_alone(Clock::time_point now) {
  const bool exits = judgement_.has_exited(launch_.rank);
  if (!exits && !judgement_.faulty()) return std::nullopt;
  child_->kill();
  if (alone_since_ == Clock::time_point()) alone_since_ = now;
  // What all ranks have to complain of is said by rank 0; by then the launcher has usually ended the others.
  const bool common = exits && launch_.rank != 0;
  if (common && now - alone_since_ < 2s) return std::nullopt;
  const Judgement::Outcome own = judgement_.of_one(launch_.rank);
  if (own.code != 0) {
    if (!own.line.empty()) say(own.line);
    // Hydra ends itself with all others: the line must be through before.
    std::this_thread::sleep_for(kCarried);
    give_up(launch_, own.code);
  }
  return own.code;
}

/// Sends what is left to send; whoever spoke also waits until the others have gone.
void Parent::farewell(bool linger) {
  child_->await_end();
  const Clock::time_point end = Clock::now() + kFarewell;
  const auto others = [&] {
    for (int rank = 0; rank < launch_.size; ++rank) {
      if (mesh_.connected(rank) && !vigil_.lost(rank)) return true;
    }
    return false;
  };
  while ((mesh_.unsent() || (linger && others())) && Clock::now() < end) {
    std::vector<pollfd> polled;
    mesh_.watch(polled);
    poll(polled.data(), polled.size(), 50);
    mesh_.work(polled);
  }
}

}  // namespace

int run_parent(const Launch& launch) { return Parent(launch).run(); }

}  // namespace athanor::comm
