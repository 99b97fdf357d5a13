import Glibc
import Loop

extension IncomingConnection {
  /// Waits for the peer's first byte, and leaves it in the connection. The byte shows which protocol the peer uses.
  ///
  /// - Parameters:
  ///   - limit: maximum time to wait.
  ///   - then: called once on the loop, never from within this call. Nil means that the peer sent nothing in time, or
  ///     ended the connection.
  /// - Returns: the wait, which ends without a call of `then` if the registration is dropped.
  public func peek(
    within limit: Duration, on scheduler: any Scheduler = EventLoop.shared,
    then: @escaping @LoopActor (UInt8?) -> Void
  ) -> Registration {
    let wait = FirstByte(rawDescriptor, then)
    wait.begin(within: limit, on: scheduler)
    return Registration { wait.cancel() }
  }

  /// Attaches the slot of another limit to the connection. Both slots are released together.
  public func hold(_ other: Registration) {
    let (descriptor, slot) = take()
    restore(
      descriptor,
      Registration {
        slot?.cancel()
        other.cancel()
      })
  }
}

@LoopActor
private final class FirstByte {
  private let descriptor: Int32
  private var then: (@LoopActor (UInt8?) -> Void)?
  private var watch: Registration?
  private var timer: Registration?

  init(_ descriptor: Int32, _ then: @escaping @LoopActor (UInt8?) -> Void) {
    (self.descriptor, self.then) = (descriptor, then)
  }

  func begin(within limit: Duration, on scheduler: any Scheduler) {
    guard descriptor >= 0 else { return scheduler.soon { self.end(nil) } }
    timer = scheduler.schedule(after: limit) { self.end(nil) }
    watch = EventLoop.shared.watch(descriptor, for: .readable) { _ in self.read() }
  }

  func cancel() {
    then = nil
    (watch, timer) = (nil, nil)
  }

  private func read() {
    var byte: UInt8 = 0
    let count = recv(descriptor, &byte, 1, Int32(MSG_PEEK | MSG_DONTWAIT))
    if count < 0, errno == EAGAIN || errno == EINTR { return }
    end(count == 1 ? byte : nil)
  }

  private func end(_ byte: UInt8?) {
    let report = then
    cancel()
    report?(byte)
  }
}
