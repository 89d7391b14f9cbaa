// The part of Jinja that chat templates are mostly written in.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "data/jinja/template_parts.h"
#include "data/jinja/value.h"

namespace athanor::data::jinja {

/// A template of texts, {{ expressions }}, if, for over a list, and set. What it uses beyond that is refused by name, but
/// only where it is reached: branches that are not taken may hold anything that can be read.
class Template {
 public:
  /// Throws std::invalid_argument for what is no template.
  explicit Template(std::string_view source);
  /// What the template writes, given these names. Throws std::invalid_argument for what is not known, and where it would
  /// take too many steps or write too much.
  std::string render(const Map& names) const;

 private:
  std::vector<Part> parts_;
};

}  // namespace athanor::data::jinja
