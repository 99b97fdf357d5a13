import Glibc

/// Whether this process runs under ThreadSanitizer or AddressSanitizer (`make test SANITIZE=thread`).
public enum Sanitizer {
  public static let isOn = dlsym(nil, "__tsan_init") != nil || dlsym(nil, "__asan_init") != nil
}
