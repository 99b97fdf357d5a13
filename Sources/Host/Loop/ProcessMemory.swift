import CLinux

/// The memory of this process, and the ways in which other processes could read it.
public enum ProcessMemory {
  /// Turns core dumps off and keeps other processes of the same user from reading the memory.
  ///
  /// - Returns: whether the kernel agreed to both.
  public static func hide() -> Bool {
    earshot_hide_memory() == 0
  }
}
