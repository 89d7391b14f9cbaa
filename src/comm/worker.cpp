#include "comm/worker.h"

#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>

#include "base/log.h"
#include "base/thread_limit.h"
#include "comm/child.h"
#include "comm/cores.h"
#include "comm/keyed_hash.h"
#include "comm/parent.h"

namespace athanor::comm {
Worker& Worker::self() {
  static Worker* worker = new Worker;  // never destroyed: its thread listens to the end
  return *worker;
}

Worker::Worker() : launch_(find_launch()), hosts_{own_host_name()} {
  if (const char* variable = std::getenv(kWorkerVariable)) adopt(variable);
  if (!pulse_) pulse_ = std::make_unique<Pulse>();
}

void Worker::adopt(const char* variable) {
  int socket = -1;
  int page = -1;
  int parent = 0;
  const bool whole = std::sscanf(variable, "%d:%d:%d", &socket, &page, &parent) == 3;
  unsetenv(kWorkerVariable);  // what this process starts is no worker
  if (!whole || parent != getppid()) return;
  const FileDescriptor page_file(page);
  pulse_ = std::make_unique<Pulse>(page);
  socket_ = FileDescriptor(socket);
  out_ = Channel(FileDescriptor(dup(socket)));
  std::thread([this] { listen(); }).detach();
}

void Worker::listen() {
  Channel in(FileDescriptor(dup(socket_.get())));
  while (in.open()) {
    pollfd readable{in.fd(), POLLIN, 0};
    poll(&readable, 1, -1);
    std::vector<Message> messages;
    in.receive(messages);
    for (const Message& message : messages) {
      if (message.kind == MessageKind::kSignal) {
        take_signal(static_cast<int>(MessageReader(message.body).number()));
        continue;
      }
      const std::lock_guard lock(mutex_);
      if (message.kind == MessageKind::kAddress) address_ = message.body;
      if (message.kind == MessageKind::kMet) met_ = true;
      news_.notify_all();
    }
  }
  // The parent is gone; the kernel ends this process with it (PR_SET_PDEATHSIG).
}

void Worker::take_signal(int number) {
  struct sigaction action{};
  sigaction(number, nullptr, &action);
  if (action.sa_handler == SIG_IGN) return;
  if (action.sa_handler != SIG_DFL) {
    action.sa_handler(number);
    return;
  }
  sigset_t signals;
  sigemptyset(&signals);
  sigaddset(&signals, number);
  pthread_sigmask(SIG_UNBLOCK, &signals, nullptr);
  raise(number);
}

bool Worker::tell(MessageKind kind, std::string_view body) {
  if (!has_parent()) return false;
  out_.send(kind, body);
  while (out_.unsent()) {
    pollfd writable{out_.fd(), POLLOUT, 0};
    poll(&writable, 1, -1);
    out_.flush();
  }
  return true;
}

void Worker::meet(Communicator& communicator) {
  if (communicator.size() == 1) return;
  using namespace std::chrono_literals;
  pulse().beat();
  std::string address;
  if (has_parent()) {
    std::unique_lock lock(mutex_);
    while (!news_.wait_for(lock, 100ms, [&] { return !address_.empty(); })) pulse().waiting();
    address = address_;
  }
  const std::string mine =
      MessageWriter().text(address).text(own_host_name()).text(own_core_share().body()).body();
  const std::vector<std::string> all = communicator.all_gather(mine);
  const Secret fresh = new_secret();
  const std::string secret = communicator.broadcast(std::string(fresh.begin(), fresh.end()), 0);

  std::vector<std::string> shares;
  hosts_.clear();
  MessageWriter world;
  world.text(secret).number(static_cast<int64_t>(all.size()));
  for (const std::string& one : all) {
    MessageReader reader(one);
    world.text(reader.text());
    hosts_.push_back(reader.text());
    shares.push_back(reader.text());
  }
  if (tell(MessageKind::kWorld, world.body())) {
    std::unique_lock lock(mutex_);
    while (!news_.wait_for(lock, 100ms, [&] { return met_; })) pulse().waiting();
  }
  divide_cores(shares, communicator.rank());
  communicator.barrier();
  pulse().beat();
}

void Worker::divide_cores(const std::vector<std::string>& bodies, int rank) {
  std::vector<CoreShare> shares;
  shares.reserve(bodies.size());
  for (const std::string& body : bodies) shares.push_back(CoreShare::of(body));
  const std::vector<int> threads = comm::divide_cores(shares);
  limit_threads(threads[static_cast<size_t>(rank)]);
  if (rank != 0) return;
  for (const std::string& line : oversubscribed(shares, hosts_, threads)) log::warning(line);
}

void Worker::set_silence_limit(double seconds) {
  tell(MessageKind::kLimit, MessageWriter().number(static_cast<int64_t>(seconds * 1000)).body());
}

bool Worker::tell_failure(ExitCode code, const std::string& message) {
  return tell(MessageKind::kFailure,
              MessageWriter().number(static_cast<int64_t>(code)).text(message).body());
}

}  // namespace athanor::comm
