import Glibc

/// Whether ThreadSanitizer or AddressSanitizer watches this process (`make test SANITIZE=thread`).
public enum Sanitizer {
  public static let isOn = dlsym(nil, "__tsan_init") != nil || dlsym(nil, "__asan_init") != nil
}
