//! Links that come in another's place.

use super::{
    connection::{Route, Stage},
    network::Network,
    notices::Notice,
    trace::{Happening, Purpose},
};

impl Network {
    /// A new link to the master of that moment, if anything passes. Whether queued commands may go now.
    pub(super) fn replace(&mut self, route: Route, purpose: Purpose) {
        let (now, instance) = (self.now(), self.instances.master(route.node));
        let blocked = self.blocks(route, instance);
        let Route { client, node } = route;
        let Some(state) = self.clients.get_mut(&client) else { return };
        if state.links[node].of(purpose).stage != Stage::Replacing {
            return;
        }
        if blocked {
            state.links[node].of(purpose).stage = Stage::Waiting;
            return;
        }
        let number = state.next_number(node, purpose);
        let link = state.links[node].of(purpose);
        (link.stage, link.number, link.instance, link.opened) = (Stage::Up, number, instance, now);
        let eras = (purpose == Purpose::Commands).then(|| state.signals.eras.clone());
        self.note(client, || Happening::Replaced { link: purpose, node });
        match eras {
            Some(eras) => self.notices.push_back(Notice::Linked(eras, number)),
            None => self.subscribe_anew(route),
        }
        self.leave_rivals(route);
    }
}
