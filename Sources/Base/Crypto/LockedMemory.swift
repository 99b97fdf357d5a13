import CSodium

/// Locked memory, which the kernel never swaps out. It contains keys.
public enum LockedMemory {
  /// Whether the kernel locks memory for this process. `SecretBytes` works without locked memory, but its pages may
  /// reach the disk.
  public static func isAvailable() -> Bool {
    Sodium.start()
    guard let page = sodium_malloc(32) else { return false }
    defer { sodium_free(page) }
    return sodium_mlock(page, 32) == 0
  }
}
