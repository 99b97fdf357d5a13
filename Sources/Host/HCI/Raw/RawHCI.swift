import Loop
import Radio

/// Sends values to single clients without bluetoothd, and reads the kernel's information about its links.
///
/// It is for clients without a subscription: subscribed clients receive ordinary notifications. On kernels without the
/// fix that `KernelRepair` describes, a value over raw HCI may stall the kernel's own packets on that link.
@LoopActor
public protocol RawHCI: AnyObject {
  /// Opens the controller `index`, and requests its buffer sizes; a second call has no effect.
  func open(_ index: UInt16) throws(HCIError)

  /// Closes all controllers. Waiting values fail with `noController`.
  func closeAll()

  /// The links of the controller `index`, from the kernel's list.
  func links(of index: UInt16) throws(HCIError) -> [HCILink]

  /// The last write of the peer at `address` to the Client Characteristic Configuration (CCCD) with the handle
  /// `attribute`. Nil if the peer has not written it on its present link, or if no socket received writes at that time.
  func configuration(of attribute: UInt16, by address: BluetoothAddress, on index: UInt16) -> LastConfiguration?

  /// Calls `handler` when a peer has written a CCCD, for the lifetime of the registration. A short write of another
  /// attribute cannot be distinguished.
  func onConfiguration(_ handler: @escaping @LoopActor (SeenConfiguration) -> Void) -> Registration

  /// Maximum bytes of a value that the controller `index` accepts in one packet, which nothing can interrupt.
  func packetLimit(of index: UInt16) -> Int

  /// Sends `value` to the peer at `address` when the controller has capacity, after earlier accepted values for that
  /// peer. The link is looked up by its address before transmission: no packet is sent to a link that came up after
  /// another one's end.
  ///
  /// - Parameter then: called exactly once if the value is accepted, never from within this call, in the order of the
  ///   decisions; not called if the value is refused.
  func send(
    _ value: ATTNotification, to address: BluetoothAddress, on index: UInt16,
    then: @escaping @LoopActor (RawOutcome) -> Void
  ) -> RawAcceptance

  /// Drops waiting values for the peer at `address`, whose link has ended. Each value's outcome is `linkGone`.
  func forget(_ address: BluetoothAddress, on index: UInt16)

  /// Calls `handler` with a peer's address and the controller's index when values for the peer can be accepted again.
  /// It is called once for each refused value, for the lifetime of the registration.
  func onRoom(_ handler: @escaping @LoopActor (BluetoothAddress, UInt16) -> Void) -> Registration
}

/// Whether a value is accepted for transmission.
public enum RawAcceptance: Hashable, Sendable {
  case accepted
  /// Too many values wait; `onRoom` reports when the next one can be accepted.
  case full
}

/// The result of an accepted value.
public enum RawOutcome: Hashable, Sendable {
  /// The kernel has accepted all its packets for the controller. Clients do not confirm notifications.
  case sent
  /// The link ended; a part of the value may have been sent.
  case linkGone
  /// The value was not sent completely. `HCIError.isPassing` is true for a transient error; only a permanent error
  /// makes the radio `degraded`.
  case failed(HCIError)
}
