// The one place that knows how work is spread over cores.
#pragma once

#include <cstdint>
#include <functional>
#include <type_traits>

namespace athanor {

/// A non-owning reference to a callable: std::function without the allocation.
template <class Signature>
class FunctionRef;
template <class R, class... Args>
class FunctionRef<R(Args...)> {
 public:
  template <class F>
    requires(!std::is_same_v<std::decay_t<F>, FunctionRef>)
  FunctionRef(F&& f)  // NOLINT(google-explicit-constructor): a parameter type, like a reference
      : object_(const_cast<void*>(static_cast<const void*>(&f))),
        call_([](void* object, Args... args) -> R {
          return (*static_cast<std::remove_reference_t<F>*>(object))(args...);
        }) {}
  R operator()(Args... args) const { return call_(object_, args...); }

 private:
  void* object_;
  R (*call_)(void*, Args...);
};

/// Cores this process may use: OMP_NUM_THREADS when set, else what both the affinity mask and a cgroup quota allow.
int allowed_threads();

/// Spreads numbered tasks over a team of the process's worker threads.
/// The partition of work into tasks belongs to the caller and must depend on shapes alone: then results have the same
/// bits for any number of threads, whichever thread runs a task.
class Threads {
 public:
  explicit Threads(int count = allowed_threads());
  int count() const { return count_; }

  /// Calls task(i, thread) for every i in [0, tasks); thread in [0, count) names the scratch a task may use.
  /// A call from inside a task, or while another thread of the program has the workers, runs serially: with the number of
  /// the task's thread where the team is as large, so that scratch for a whole team may be shared, and as thread 0 of a
  /// team of one. An exception in a task is rethrown here after all threads have stopped.
  /// kResources when the system starts no more threads.
  void run(int64_t tasks, FunctionRef<void(int64_t task, int thread)> task) const;

 private:
  int count_;
};

}  // namespace athanor
