import Air
import Common
import Loop
import Radio

/// Two nodes of the simulated radio, in virtual time.
@LoopActor
final class SimulatedWorld: ContractWorld {
  struct NeverHeld: Error {}

  private static let limit = Duration.seconds(60)

  let recorder = ContractRecorder()
  private let time = VirtualTime()
  private let air: AirSpace
  private let node: AirRadio
  private let peer: AirRadio
  private let peerRecorder = ContractRecorder()
  private var peerLink: (any Link)?
  private var streamAttempt: Registration?

  init() {
    air = AirSpace(scheduler: time, seed: 1)
    node = air.addNode()
    peer = air.addNode()
    node.delegate = recorder
    peer.delegate = peerRecorder
    peer.serve(Contract.application, as: Contract.number)
  }

  var driver: any RadioDriver { node }
  var peerAddress: BluetoothAddress { peer.address }

  func until(_ condition: @escaping @LoopActor () -> Bool) async throws {
    guard time.run(until: { condition() }, limit: Self.limit) else { throw NeverHeld() }
  }

  func settle() async throws { time.advance(by: .seconds(2)) }
  func close() {}

  func peerAdvertises() async throws { peer.advertise(Contract.advertisement, in: 0) }
  var peerReceived: [[UInt8]] { peerRecorder.values }
  var peerRefusal: ATTError? {
    get { peerRecorder.refusal }
    set { peerRecorder.refusal = newValue }
  }
  func peerNotifies(_ value: [UInt8]) {
    _ = peer.notify(value, of: Contract.hear, in: Contract.number, to: .subscribers)
  }

  func servicesOnAir() async throws -> Set<BluetoothUUID> {
    let before = peerRecorder.events.count
    peer.listen(Listening(services: []))
    try await settle()
    peer.listen(nil)
    return peerRecorder.events.dropFirst(before).reduce(into: []) { services, event in
      if case .heard(_, let heard) = event { services.formUnion(heard) }
    }
  }

  func peerConnects() async throws {
    let link = try peer.connect(to: node.address) { [peerRecorder] in peerRecorder.note(.link($0)) }
    peerLink = link
    try await until { [peerRecorder] in peerRecorder.linkEvents.contains(.connected) }
    link.exchangeMTU(517)
    try await until { [peerRecorder] in peerRecorder.linkEvents.contains(.mtuChanged(517)) }
  }

  func peerWrites(_ value: [UInt8]) async throws -> Bool {
    let count = peerRecorder.linkEvents.count
    peerLink?.write(value, to: Contract.put, as: .request)
    try await until { [peerRecorder] in peerRecorder.linkEvents.count > count }
    return peerRecorder.linkEvents.last == .written(Contract.put, error: nil)
  }

  func peerSubscribes() async throws {
    peerLink?.subscribe(to: Contract.hear)
    try await until { [peerRecorder] in peerRecorder.linkEvents.contains(.subscribed(Contract.hear)) }
  }

  var peerNotified: [[UInt8]] {
    peerRecorder.linkEvents.compactMap { if case .notified(_, let value) = $0 { value } else { nil } }
  }

  func losePeer() { air.isInRange = { _, _ in false } }
  func setPower(_ isOn: Bool) { node.power = isOn }

  func peerOpensStream() async throws -> any ContractStream {
    guard let address = node.publicAddress else { throw NeverHeld() }
    let end = End()
    streamAttempt = try peer.connect(to: address, on: Contract.profile) { end.opened($0) }
    try await until { end.stream != nil }
    return end
  }

  @LoopActor
  private final class End: ContractStream {
    private(set) var stream: (any RadioStream)?
    private(set) var received: [UInt8] = []
    private(set) var isOver = false

    func opened(_ result: Result<any RadioStream, RadioError>) {
      guard case .success(let stream) = result else { return }
      self.stream = stream
      stream.start { [weak self] event in
        switch event {
        case .received(let bytes): self?.received += bytes
        case .closed: self?.isOver = true
        case .writable: break
        }
      }
    }

    func send(_ bytes: [UInt8]) { _ = stream?.send(bytes[...]) }
    func close() { stream?.close() }
  }
}
