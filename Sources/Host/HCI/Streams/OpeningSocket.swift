import Glibc
import Loop

/// A socket of `ClassicSockets` whose connection attempt is under way. It owns the descriptor until `take`.
@LoopActor
public final class OpeningSocket {
  private var descriptor: Int32
  private var watch: Registration?

  public init(owning descriptor: Int32) {
    self.descriptor = descriptor
    _ = fcntl(descriptor, F_SETFL, O_NONBLOCK)
  }

  deinit {
    if descriptor >= 0 { Glibc.close(descriptor) }
  }

  /// Reports the result of the connection attempt.
  ///
  /// - Parameter body: called once on the loop, with nil if the connection exists.
  public func whenOver(_ body: @escaping @LoopActor (HCIError?) -> Void) {
    watch = EventLoop.shared.watch(descriptor, for: .writable) { [weak self] _ in
      guard let self, watch != nil else { return }
      watch = nil
      body(failure)
    }
  }

  /// Returns the descriptor and transfers its ownership to the caller.
  public func take() -> Int32 {
    watch = nil
    defer { descriptor = -1 }
    return descriptor
  }

  /// Abandons the connection attempt, and closes the descriptor.
  public func close() {
    watch = nil
    if descriptor >= 0 { Glibc.close(descriptor) }
    descriptor = -1
  }

  private var failure: HCIError? {
    var code: Int32 = 0
    var size = socklen_t(MemoryLayout<Int32>.size)
    guard getsockopt(descriptor, SOL_SOCKET, SO_ERROR, &code, &size) == 0 else { return HCIError(errno, in: "connect") }
    return code == 0 ? nil : HCIError(code, in: "connect")
  }
}
