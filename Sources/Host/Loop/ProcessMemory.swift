import CLinux
import CWipe
import Glibc

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

  /// Has freed memory go back to the kernel: a block of 128 KiB and more at once, smaller ones where so much is free at the
  /// end. Otherwise as much as was ever needed would be kept.
  public static func giveBackFreed() { earshot_give_back_blocks() }

  /// Gives the pages of code back that only the start needed. What is still needed comes back from the file's pages in the
  /// kernel's memory, as it is called.
  ///
  /// - Returns: how many bytes of code are mapped; 0 where the kernel does not say.
  @discardableResult
  public static func giveBackCode() -> Int {
    guard let file = fopen("/proc/self/maps", "r") else { return 0 }
    defer { fclose(file) }
    var given = 0
    var line = [CChar](repeating: 0, count: 4096)
    while fgets(&line, Int32(line.count), file) != nil {
      let text = String(decoding: line.prefix { $0 != 0 }.map { UInt8(bitPattern: $0) }, as: UTF8.self)
      // Address, permissions, offset, device, inode, path.
      let words = text.split(separator: " ")
      let ends = words.first?.split(separator: "-").compactMap { UInt($0, radix: 16) } ?? []
      guard words.count > 5, words[1] == "r-xp", words[5].hasPrefix("/"), ends.count == 2, ends[0] < ends[1],
        madvise(UnsafeMutableRawPointer(bitPattern: ends[0]), Int(ends[1] - ends[0]), MADV_DONTNEED) == 0
      else { continue }
      given += Int(ends[1] - ends[0])
    }
    return given
  }

  /// Overwrites what calls that have returned left on the stack of this thread, to a depth of 64 KiB. To be called after
  /// something private was computed or copied.
  public static func wipeStack() { earshot_wipe_stack() }
}
