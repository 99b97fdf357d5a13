import Common
import Glibc
import Loop

/// The kernel's block of an adapter (rfkill). While it lasts, no program can switch the adapter on.
public enum RadioBlock: Hashable, Sendable {
  /// A program has set the block; `rfkill unblock` ends it.
  case soft
  /// A hardware switch has set the block.
  case hard

  /// The kernel's list of radios. It is readable in the unit's sandbox, which has no `/dev/rfkill`.
  private static let folder = "/sys/class/rfkill"

  /// The block of an adapter (`hci0`), read from the kernel's list; nil if the adapter is not blocked or not listed.
  public static func installed(_ adapter: String) -> RadioBlock? { listed(adapter, in: folder) }

  static func listed(_ adapter: String, in folder: String) -> RadioBlock? {
    guard let list = opendir(folder) else { return nil }
    defer { closedir(list) }
    while let entry = readdir(list) {
      let name = withUnsafePointer(to: &entry.pointee.d_name) {
        $0.withMemoryRebound(to: CChar.self, capacity: 256) { String(cString: $0) }
      }
      func word(_ file: String) -> Substring? {
        DaemonConfiguration.text(at: "\(folder)/\(name)/\(file)")?.split(whereSeparator: \.isWhitespace).first
      }
      guard !name.hasPrefix("."), word("name") == adapter[...] else { continue }
      if word("hard") == "1" { return .hard }
      return word("soft") == "1" ? .soft : nil
    }
    return nil
  }
}

/// Reads the rfkill block of an adapter that is off. The kernel reports changes only through `/dev/rfkill`, which the
/// service cannot open, so the list is read every 5 s.
@LoopActor
public final class BlockWatch {
  public typealias Read = @LoopActor (_ adapter: String) -> RadioBlock?

  private(set) var block: RadioBlock?

  private let scheduler: any Scheduler
  private let read: Read
  private let onChange: @LoopActor () -> Void
  private var adapter: String?
  private var timer: Registration?

  private static let period = Duration.seconds(5)

  /// - Parameter onChange: called when a periodic read changes `block`; `watch` does not call it.
  init(_ scheduler: any Scheduler, _ read: @escaping Read, onChange: @escaping @LoopActor () -> Void) {
    self.scheduler = scheduler
    self.read = read
    self.onChange = onChange
  }

  /// Reads the block of this adapter now and every 5 s; nil ends the reads.
  func watch(_ adapter: String?) {
    self.adapter = adapter
    block = adapter.flatMap { read($0) }
    if adapter == nil { timer = nil } else if timer == nil { wait() }
  }

  private func wait() {
    timer = scheduler.schedule(after: Self.period) { [weak self] in
      guard let self, let adapter else { return }
      let before = block
      block = read(adapter)
      wait()
      if block != before { onChange() }
    }
  }
}
