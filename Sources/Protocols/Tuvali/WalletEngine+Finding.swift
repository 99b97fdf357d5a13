import Common
import Crypto

/// From the scan to Identify. Facts: tuvali.md sections 1 to 4 and 7.
extension WalletEngine {
  mutating func start(at now: Instant) -> [Action] {
    guard case .idle = stage else { return [] }
    stage = .scanning
    stageEnd = now.advanced(by: configuration.scanTimeout)
    return [.scan(dialects.map(\.service))]
  }

  mutating func sight(_ token: UInt64, _ serviceData: [BluetoothUUID: [UInt8]], at now: Instant) -> [Action] {
    guard case .scanning = stage else { return [] }
    for dialect in dialects where serviceData[dialect.service] == invitation.advertisedServiceData {
      guard let rest = serviceData[dialect.scanResponse] else { continue }
      guard rest == invitation.scanResponseServiceData else {
        impostors += 1
        continue
      }
      stage = .connecting(dialect)
      stageEnd = now.advanced(by: configuration.connectTimeout)
      return [.stopScanning, .connect(token: token)]
    }
    return []
  }

  mutating func connected() -> [Action] {
    guard case .connecting(let dialect) = stage else { return [] }
    stage = .discovering(dialect, attempt: 1, retryAt: nil)
    return [.discover]
  }

  mutating func discover(_ services: [BluetoothUUID: Set<BluetoothUUID>], at now: Instant) -> [Action] {
    guard case .discovering(let dialect, let attempt, _) = stage else { return [] }
    let needed = Characteristic.allCases.filter { $0.direction != .unused }.map(dialect.uuid(of:))
    if services[dialect.service]?.isSuperset(of: needed) == true {
      stage = .exchangingMTU(dialect)
      return [.exchangeMTU(Limits.offeredMTU)]
    }
    guard attempt <= Limits.discoveryRetries else {
      let error = TuvaliError(
        .walletServiceNotFound, .protocolViolation, "The verifier does not serve what it advertises.")
      return fail(error, at: now)
    }
    // 2, 4, 8, 16, 32 ms.
    let retryAt = now.advanced(by: .milliseconds(1 << attempt))
    stage = .discovering(dialect, attempt: attempt + 1, retryAt: retryAt)
    return []
  }

  mutating func change(mtu: Int, at now: Instant) -> [Action] {
    progress.mtu = mtu
    switch stage {
    case .exchangingMTU, .subscribing, .identifying, .sealing: break
    // Too early to tell, or the chunks are cut.
    default: return []
    }
    guard ChunkLayout(mtu: mtu).isUsable else {
      let error = TuvaliError(
        .walletMTU, .protocolViolation,
        "The verifier agreed on an MTU of \(mtu), and a transfer needs \(Limits.minimumMTU) at least.")
      return fail(error, at: now)
    }
    guard case .exchangingMTU(let dialect) = stage else { return [] }
    let toWallet = Characteristic.allCases.filter { $0.direction == .toWallet }
    stage = .subscribing(dialect, left: Set(toWallet))
    return [.tell(.connected(mtu: mtu))] + toWallet.map { .subscribe($0, dialect) }
  }

  mutating func subscribed(_ characteristic: Characteristic, at now: Instant) -> [Action] {
    guard case .subscribing(let dialect, var left) = stage else { return [] }
    left.remove(characteristic)
    stage = .subscribing(dialect, left: left)
    guard left.isEmpty else { return [] }
    return identify(to: dialect, at: now)
  }

  /// The key pair and the nonce of this one connection.
  private mutating func identify(to dialect: Dialect, at now: Instant) -> [Action] {
    let key = X25519.PrivateKey(randomFrom: &random)
    let nonce = random.bytes(12)
    guard let keys = try? SessionKeys(own: key, peer: invitation.key, nonce: nonce) else {
      let error = TuvaliError(
        .walletInvalidURI, .protocolViolation, "The verifier's public key is a weak one: it makes the secret zero.")
      return fail(error, at: now)
    }
    stage = .identifying(dialect, keys)
    let identify = Identify(nonce: nonce, walletKey: key.publicKey)
    return [write(identify.bytes, to: .identify, dialect)]
  }
}
