// manifest.json: as it is, and with its own checksum made right, so that what stands behind the checksum is reached.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string>

#include "base/checksum.h"
#include "base/error.h"
#include "checkpoint/manifest.h"

namespace {

void parse(const std::string& text) {
  using namespace athanor;  // NOLINT(google-build-using-namespace)
  try {
    const checkpoint::Manifest manifest = checkpoint::parse_manifest(text, "input");
    // What was accepted can be written, and is read back as the same.
    const std::string written = checkpoint::manifest_text(manifest);
    if (checkpoint::manifest_text(checkpoint::parse_manifest(written, "written")) != written) {
      std::abort();
    }
  } catch (const Error& error) {
    if (error.code() != ExitCode::kData) std::abort();
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string text(reinterpret_cast<const char*>(data), size);
  parse(text);
  std::string body = text + ",\n  \"manifest_checksum\": \"";
  body += athanor::Checksum::of(body.data(), body.size());
  parse(body + "\"\n}\n");
  return 0;
}
