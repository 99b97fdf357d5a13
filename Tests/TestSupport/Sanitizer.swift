import Glibc

/// Whether ThreadSanitizer or AddressSanitizer watches this process (`make test SANITIZE=thread`), and what that costs.
public enum Sanitizer {
  public static let isOn = dlsym(nil, "__tsan_init") != nil || dlsym(nil, "__asan_init") != nil

  /// How much longer than in an ordinary build a computation may take here.
  public static let slowness = isOn ? 30 : 1
}
