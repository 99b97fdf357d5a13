import CLinux
import CWipe

/// The memory of this process, and the ways in which other processes could read it.
public enum ProcessMemory {
  /// Turns core dumps off and keeps other processes of the same user from reading the memory.
  ///
  /// - Returns: whether the kernel agreed to both.
  public static func hide() -> Bool {
    earshot_hide_memory() == 0
  }

  /// Whether memory that is given back is overwritten first, in the whole process: arrays, texts, and what the C libraries
  /// allocate. It is so unless a sanitizer or a preloaded library brings an allocator of its own.
  public static var wipesWhatIsFreed: Bool { earshot_free_wipes() != 0 }

  /// Overwrites what calls that have returned left on the stack of this thread, to a depth of 64 KiB. To be called after
  /// something private was computed or copied.
  public static func wipeStack() { earshot_wipe_stack() }
}
