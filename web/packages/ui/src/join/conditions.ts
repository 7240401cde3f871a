// Whether a device should compute now: not on battery and not on a metered network, unless its
// owner allows it. Browsers that do not tell count as mains and unmetered: most are desktops.

export interface DeviceConditions {
  isOnBattery: boolean;
  isMetered: boolean;
}

export interface Allowed {
  battery: boolean;
  metered: boolean;
}

// A sentence; "" when nothing stands against it.
export function pauseReason(conditions: DeviceConditions, allowed: Allowed): string {
  if (conditions.isOnBattery && !allowed.battery) {
    return "This device runs on battery. Plug it in, or allow helping on battery.";
  }
  if (conditions.isMetered && !allowed.metered) {
    return "This connection is metered or saves data. Change it, or allow metered connections.";
  }
  return "";
}

// What navigator.connection tells: a type where the browser knows one, and the user's wish.
export function isMeteredConnection(connection: { type?: string; saveData?: boolean }): boolean {
  return connection.saveData === true || connection.type === "cellular";
}
