import Common
import Loop
import Radio

/// What a program knows of a link that it made.
@LoopActor
final class RemoteLinkState {
  private var handler: (@LoopActor (LinkEvent) -> Void)?

  init(_ handler: @escaping @LoopActor (LinkEvent) -> Void) {
    self.handler = handler
  }

  /// Whether there may still be events.
  var isOpen: Bool { handler != nil }

  func happened(_ event: LinkEvent) {
    let handler = handler
    if case .disconnected = event { self.handler = nil }
    handler?(event)
  }

  func end(_ reason: String) {
    happened(.disconnected(reason: reason))
  }
}

/// The central's handle on a link through the hub; dropping it cuts the link.
@LoopActor
final class RemoteLink: Link {
  let id = RemoteAir.newLinkID()
  private let air: RemoteAir
  private let number: UInt32
  private let state: RemoteLinkState
  private let registration: Registration

  init(air: RemoteAir, number: UInt32, _ state: RemoteLinkState) {
    self.air = air
    self.number = number
    self.state = state
    registration = Registration { if state.isOpen { air.send(.disconnect(link: number)) } }
  }

  func discover() { send(.discover(link: number)) }

  func exchangeMTU(_ mtu: Int) { send(.exchangeMTU(link: number, UInt16(clamping: mtu))) }

  func subscribe(to characteristic: CharacteristicID) { send(.subscribe(link: number, characteristic)) }

  func write(_ value: [UInt8], to characteristic: CharacteristicID, as kind: WriteKind) {
    send(.write(link: number, kind, characteristic, value))
  }

  func disconnect() { registration.cancel() }

  private func send(_ frame: NodeFrame) {
    if state.isOpen { air.send(frame) }
  }
}
