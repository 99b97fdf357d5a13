import Common
import Loop

/// A service that peers reach by streams: RFCOMM over BR/EDR.
public struct StreamProfile: Hashable, Sendable {
  /// The name in the service record.
  public var name: String
  /// The UUIDs, at least one. A server registers the first one; a client looks for all of them, in this order.
  public var services: [BluetoothUUID]

  /// Maximum UUIDs of a profile.
  public static let serviceLimit = 8

  /// - Precondition: 1 to 8 UUIDs.
  public init(name: String, services: [BluetoothUUID]) {
    precondition((1...Self.serviceLimit).contains(services.count), "a profile has 1 to 8 UUIDs")
    self.name = name
    self.services = services
  }

  /// The UUID that a server registers.
  public var registered: BluetoothUUID { services[0] }
}

/// An open stream of bytes to a peer. Bytes arrive complete and in order until the stream ends.
///
/// The owner closes a stream that it no longer uses. RFCOMM ends both directions together.
@LoopActor
public protocol RadioStream: AnyObject {
  /// The peer's public address.
  var address: BluetoothAddress { get }

  /// Begins to report events. Bytes that arrive earlier are stored.
  ///
  /// - Parameter handler: called on the loop, never from within a call of the stream.
  func start(_ handler: @escaping @LoopActor (RadioStreamEvent) -> Void)

  /// Sends bytes, as many as there is buffer space for.
  ///
  /// - Returns: the number of accepted bytes. After fewer than all, `writable` follows.
  func send(_ bytes: ArraySlice<UInt8>) -> Int

  /// Stops and starts reading. While reading is paused, the peer can send only until the buffers are full.
  func pauseReading(_ isPaused: Bool)

  /// Sends the accepted bytes, then ends the stream. No event follows.
  func close()
}

/// An event of a `RadioStream`.
public enum RadioStreamEvent: Hashable, Sendable {
  /// The peer has sent these bytes, at least one.
  case received([UInt8])
  /// The stream has buffer space again, after `send` accepted fewer bytes than it was given.
  case writable
  /// The stream has ended, and everything that arrived before was reported. This is the last event.
  case closed(reason: String)
}
