import Loop
import Radio

/// Values for single clients, past bluetoothd, and what the kernel knows of its links.
///
/// It is for clients that never subscribed: a client that did gets the ordinary notification. On kernels without the
/// repair that `KernelRepair` names, a value by raw HCI may stall what the kernel itself sends on that link.
@LoopActor
public protocol RawHCI: AnyObject {
  /// Opens the controller `index`, and asks it how much it takes at a time; does nothing the second time.
  func open(_ index: UInt16) throws(HCIError)

  /// Closes all controllers. Values that wait fail with `noController`.
  func closeAll()

  /// The links of the controller `index`, from the kernel's list.
  func links(of index: UInt16) throws(HCIError) -> [HCILink]

  /// The last write of the peer at `address` to the Client Characteristic Configuration (CCCD) with the handle
  /// `attribute`. Nil if the peer has not written it on its present link, or if no socket listened at that time.
  func configuration(of attribute: UInt16, by address: BluetoothAddress, on index: UInt16) -> LastConfiguration?

  /// Calls `handler` when a peer has written a CCCD, for as long as the registration lives. A short write of another
  /// attribute looks the same.
  func onConfiguration(_ handler: @escaping @LoopActor (SeenConfiguration) -> Void) -> Registration

  /// Bytes of the longest value that the controller `index` takes in one packet, between whose parts nothing can come.
  func packetLimit(of index: UInt16) -> Int

  /// Sends `value` to the peer at `address`, after the values for the same peer that were accepted before it, as soon as
  /// the controller has room. The link is looked up by its address when the value's turn comes: no packet goes to a link
  /// that came up after another one's end.
  ///
  /// - Parameter then: called exactly once if the value is accepted, never from within this call, in the order in which
  ///   the values were decided; not called if there is no room.
  func send(
    _ value: ATTNotification, to address: BluetoothAddress, on index: UInt16,
    then: @escaping @LoopActor (RawOutcome) -> Void
  ) -> RawAcceptance

  /// Drops what waits for the peer at `address`, whose link has ended. Each value's outcome is `linkGone`.
  func forget(_ address: BluetoothAddress, on index: UInt16)

  /// Calls `handler` with the address of a peer and the index of the controller when a value for that peer would be
  /// accepted again, once for each time that one was not, for as long as the registration lives.
  func onRoom(_ handler: @escaping @LoopActor (BluetoothAddress, UInt16) -> Void) -> Registration
}

/// Whether a value is taken over.
public enum RawAcceptance: Hashable, Sendable {
  case accepted
  /// Too many values wait: `onRoom` says when the next one is taken.
  case full
}

/// What became of a value that was accepted.
public enum RawOutcome: Hashable, Sendable {
  /// All its packets are with the kernel, on the way to the controller. No client confirms a notification.
  case sent
  /// The link ended before; a part of the value may have been sent.
  case linkGone
  /// It was not sent, or only a part of it. `HCIError.isPassing` tells whether the next value may fare better: a passing
  /// error is no reason to call the radio `degraded`, a lasting one is.
  case failed(HCIError)
}
