// Values of a Jinja template.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <variant>
#include <vector>

namespace athanor::data::jinja {

struct Undefined {};
struct None {};
class Value;
using List = std::vector<Value>;
using Map = std::map<std::string, Value>;

/// Lists and maps are shared: a namespace that is set is set for all who know it.
class Value {
 public:
  Value() = default;
  Value(None none) : what_(none) {}                      // NOLINT(google-explicit-constructor)
  Value(bool flag) : what_(flag) {}                      // NOLINT(google-explicit-constructor)
  Value(int64_t number) : what_(number) {}               // NOLINT(google-explicit-constructor)
  Value(std::string text) : what_(std::move(text)) {}    // NOLINT(google-explicit-constructor)
  Value(const char* text) : what_(std::string(text)) {}  // NOLINT(google-explicit-constructor)
  Value(List list)                                       // NOLINT(google-explicit-constructor)
      : what_(std::make_shared<List>(std::move(list))) {}
  Value(Map map)  // NOLINT(google-explicit-constructor)
      : what_(std::make_shared<Map>(std::move(map))) {}

  bool undefined() const { return std::holds_alternative<Undefined>(what_); }
  bool none() const { return std::holds_alternative<None>(what_); }
  const bool* flag() const { return std::get_if<bool>(&what_); }
  const int64_t* number() const { return std::get_if<int64_t>(&what_); }
  const std::string* text() const { return std::get_if<std::string>(&what_); }
  const List* list() const { return pointee<List>(); }
  Map* map() const { return pointee<Map>(); }

  /// What a condition takes it for.
  bool truth() const;
  /// As it is written out. Throws std::invalid_argument for lists and maps.
  std::string written() const;
  bool operator==(const Value& other) const;

 private:
  template <class T>
  T* pointee() const {
    const auto* shared = std::get_if<std::shared_ptr<T>>(&what_);
    return shared == nullptr ? nullptr : shared->get();
  }
  std::variant<Undefined, None, bool, int64_t, std::string, std::shared_ptr<List>,
               std::shared_ptr<Map>>
      what_;
};

}  // namespace athanor::data::jinja
