import Tool
import Transfers
import Tuvali
import Verifier

/// The codes of transfers: errors, states, deliveries of a verdict, refusals of phones, and states of the verifier.
enum TransferCodes {
  static let all: [CodeMeaning] =
    TuvaliError.Code.allCases.map(error) + Transfer.State.allCases.map(state)
    + [Transfer.VerdictDelivery.sent, .peerGone].map(delivery) + VerifierEngine.Refusal.allCases.map(refusal)
    + VerifierService.State.allCases.map(verifier)

  private static func error(_ code: TuvaliError.Code) -> CodeMeaning {
    let (meaning, remedy) = words(code)
    return CodeMeaning(code.rawValue, kind: "error of a transfer", meaning, remedy: remedy)
  }

  /// Most codes have several causes, so ErrorMessage of the transfer names the cause.
  private static let message = "ErrorMessage of the transfer (earshot transfers show NAME) names the cause."

  private static func words(_ code: TuvaliError.Code) -> (meaning: String, remedy: String) {
    switch code {
    case .unknown: ("The role of the other side is unknown. Only the original library uses this code.", "")
    case .walletInvalidURI:
      (
        "The text is not the QR code of a verifier, or its key would make the shared secret zero.",
        "Scan the code that the verifier shows now."
      )
    case .walletMTU:
      (
        "The MTU of the link is too small: the verifier accepts only short writes.",
        "Try again. If the error remains, the verifier's adapter does not suit."
      )
    case .walletServiceNotFound:
      (
        "The verifier does not serve what it advertises.",
        "Restart the verifier, and switch Bluetooth of the phone off and on: it may have stored an old list of services."
      )
    case .walletReport:
      (
        "Chunks of the credential were lost too often: 15 rounds of resending were not enough, or no report came.",
        "Bring the phone nearer to the verifier, and send a smaller credential."
      )
    case .walletUnknown:
      (
        "The wallet could not send: the verifier was not found or lost, time ran out, a program stopped the transfer, the "
          + "radio refused it, or the credential is empty, too large or not text.", message
      )
    case .walletState:
      (
        "The verifier has no free session slot or no capacity, refused a write, or sent an unreadable report.",
        "Try again in a moment."
      )
    case .walletTransfer:
      ("The verifier ended the transfer, or the credential needs more chunks than can be numbered.", message)
    case .verifierMTU:
      (
        "The MTU of the link is under 67 bytes, too small for a transfer.",
        "Try again. If the error remains for one phone only, restart its Bluetooth."
      )
    case .verifierSize:
      (
        "The announced size is impossible, or over CredentialLimit=.",
        "If honest credentials are larger, raise CredentialLimit= in the section [Verifier]."
      )
    case .verifierTooManyMissing:
      (
        "More than 70 % of the chunks were lost, so the protocol ends the transfer.",
        "Bring the phone nearer. Move the adapter away from USB 3 ports and from Wi-Fi antennas."
      )
    case .verifierUnknown:
      (
        "The verifier ended the transfer: a time limit was exceeded, the phone was lost, a program stopped it, another "
          + "phone needed the session slot, or there is no capacity.", message
      )
    case .verifierState:
      (
        "The phone's key would make the shared secret zero, or the announcement of the size has too few bytes.",
        "Try another phone or app."
      )
    case .verifierTransfer:
      (
        "The credential could not be opened: it was encrypted for a code that is no longer shown, is too large after "
          + "decompression, or is not text.", "Scan the code that is shown now."
      )
    }
  }

  private static func state(_ state: Transfer.State) -> CodeMeaning {
    let meaning =
      switch state {
      case .searching: "The wallet searches for the verifier."
      case .connected: "The two are connected, and agree on keys."
      case .transferring: "The credential is being transferred."
      case .received: "The credential has arrived completely, and waits for a verdict."
      case .accepted: "The credential was accepted."
      case .rejected: "The credential was rejected, and is erased."
      case .undecided: "The credential was received, and the transfer ended without a verdict."
      case .failed: "The transfer failed. ErrorCode has the reason."
      }
    return CodeMeaning(state.rawValue, kind: "state of a transfer", meaning)
  }

  private static func verifier(_ state: VerifierService.State) -> CodeMeaning {
    let (meaning, remedy) =
      switch state {
      case .stopped: ("The verifier waits for no wallets.", "Start it: earshot verifier start")
      case .waiting: ("No wallet has a session.", "")
      case .serving: ("At least one wallet has a session.", "")
      case .full:
        (
          "No wallet has a session or is invited, because there is no capacity for another credential.",
          "Judge and fetch those that wait: earshot transfers"
        )
      }
    return CodeMeaning(state.rawValue, kind: "state of the verifier", meaning, remedy: remedy)
  }

  private static func delivery(_ delivery: Transfer.VerdictDelivery) -> CodeMeaning {
    let meaning =
      switch delivery {
      case .none: "There is no verdict yet."
      case .sent: "The verdict was handed to the radio while the phone was connected."
      case .peerGone: "The phone had left before the verdict, and was not notified."
      }
    return CodeMeaning(delivery.rawValue, kind: "delivery of a verdict", meaning)
  }

  private static func refusal(_ refusal: VerifierEngine.Refusal) -> CodeMeaning {
    let (meaning, remedy) =
      switch refusal {
      case .wrongCode:
        ("A phone used a code that is no longer shown.", "Scan the code that is shown now.")
      case .busy:
        (
          "A phone found every session slot or link in use.",
          "Try again in a moment, or raise SessionSlots= in the section [Verifier]."
        )
      case .full:
        (
          "There is no capacity for another credential.",
          "Judge and fetch those that wait: earshot transfers"
        )
      }
    return CodeMeaning(refusal.rawValue, kind: "refusal of a phone", meaning, remedy: remedy)
  }
}
