// Matrix products by oneDNN, one at a time, for whoever measures them by turns with ours (src/advisor/peers.h).
//
// Writes a line with its name, then answers each line "bf16 2048" or "fp32 2048" with the seconds that one product of
// that dtype, rows = columns = depth, took: weights packed beforehand, result in fp32. The first of a kind is prepared
// and run once before it is timed.
#include <chrono>
#include <cstring>
#include <iostream>
#include <map>
#include <memory>
#include <oneapi/dnnl/dnnl.hpp>
#include <string>
#include <utility>

namespace {

using dnnl::memory;

class Product {
 public:
  Product(const dnnl::engine& engine, dnnl::stream stream, memory::data_type dtype,
          memory::dim size)
      : stream_(std::move(stream)) {
    const memory::dims dims = {size, size};
    const memory::desc plain(dims, dtype, memory::format_tag::ab);
    const memory::desc any(dims, dtype, memory::format_tag::any);
    const memory::desc result(dims, memory::data_type::f32, memory::format_tag::ab);
#if DNNL_VERSION_MAJOR >= 3
    const dnnl::matmul::primitive_desc description(engine, plain, any, result);
#else
    const dnnl::matmul::primitive_desc description(dnnl::matmul::desc(plain, any, result), engine);
#endif
    x_ = memory(plain, engine);
    w_ = memory(description.weights_desc(), engine);
    y_ = memory(result, engine);
    // The same small numbers everywhere: neither zeros nor subnormals, in either dtype.
    std::memset(x_.get_data_handle(), 0x3c, plain.get_size());
    memory w(plain, engine);
    std::memset(w.get_data_handle(), 0x3c, plain.get_size());
    dnnl::reorder(w, w_).execute(stream_, w, w_);
    stream_.wait();
    product_ = dnnl::matmul(description);
    run();
  }

  double seconds() {
    const auto start = std::chrono::steady_clock::now();
    run();
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  }

 private:
  void run() {
    product_.execute(stream_, {{DNNL_ARG_SRC, x_}, {DNNL_ARG_WEIGHTS, w_}, {DNNL_ARG_DST, y_}});
    stream_.wait();
  }

  dnnl::stream stream_;
  dnnl::matmul product_;
  memory x_, w_, y_;
};

int serve() {
  const dnnl_version_t* version = dnnl_version();
  std::cout << "oneDNN " << version->major << '.' << version->minor << '.' << version->patch << '\n'
            << std::flush;
  const dnnl::engine engine(dnnl::engine::kind::cpu, 0);
  const dnnl::stream stream(engine);
  std::map<std::pair<std::string, long>, std::unique_ptr<Product>> products;
  std::string dtype;
  long size = 0;
  while (std::cin >> dtype >> size) {
    std::unique_ptr<Product>& product = products[{dtype, size}];
    if (!product) {
      product = std::make_unique<Product>(
          engine, stream, dtype == "bf16" ? memory::data_type::bf16 : memory::data_type::f32, size);
    }
    std::cout << product->seconds() << '\n' << std::flush;
  }
  return 0;
}

}  // namespace

int main() {
  try {
    return serve();
  } catch (const std::exception& error) {
    std::cerr << "athanor-bench-peers: " << error.what() << '\n';
    return 4;
  }
}
